"""`enqueue_v1` by hand, as it is documented for every language: its fields, its refusals, its hint to workers."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import psycopg.rows
import pytest

from holdfast.stores.postgres.store import PostgresStore

Asyncpg = Any  # a connection of asyncpg, whose stubs ask for the class of its records


@pytest.fixture
def connection(dsn: str) -> "Iterator[psycopg.Connection[Any]]":
    with psycopg.connect(dsn) as opened:
        yield opened
        opened.rollback()


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[Asyncpg]:
    opened = await asyncpg.connect(dsn)
    yield opened
    await opened.close()


def enqueue(connection: "psycopg.Connection[Any]", schema: str, text: str) -> list[tuple[int, int | None, bool, bool]]:
    """What the documentation shows, with psycopg."""
    return connection.execute(f"SELECT * FROM {schema}.enqueue_v1(%s)".encode(), [text]).fetchall()


def stored(connection: "psycopg.Connection[Any]", schema: str) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return cursor.execute(f"SELECT * FROM {schema}.jobs ORDER BY id".encode()).fetchall()


# ---- accepted --------------------------------------------------------------------------------------------------------


def test_the_defaults(connection: Any, emptied_schema: str) -> None:
    ((ordinal, job_id, existing, conflict),) = enqueue(connection, emptied_schema, '[{"kind": "Send_Email"}]')
    assert (ordinal, existing, conflict) == (1, False, False)
    (job,) = stored(connection, emptied_schema)
    assert job_id == job["id"]
    assert (job["kind"], job["queue"], job["priority"], job["state"]) == ("send_email", "default", 5, "queued")
    assert (job["payload"], job["tags"], job["actor"]) == ({}, None, None)
    assert (job["max_attempts"], job["max_crashes"], job["timeout_ms"]) == (5, 3, 3_600_000)
    assert job["run_at"] == job["enqueued_at"]
    assert job["position"] is not None


def test_the_name_that_args_had_in_the_last_release_is_taken(connection: Any, emptied_schema: str) -> None:
    enqueue(connection, emptied_schema, '[{"kind": "k", "payload": {"n": 1}}]')
    (found,) = stored(connection, emptied_schema)
    assert found["payload"] == {"n": 1}


def test_every_field(connection: Any, emptied_schema: str) -> None:
    job = {
        "kind": "a.B:c-d_1",
        "queue": "High",
        "priority": 0,
        "args": {"deep": [{"er": 2**63}], "text": "ü ☃ % $1 :x"},
        "run_at": "2038-01-19T03:14:08+02:00",
        "unique": "the unique key",
        "unique_for_ms": 60_000,
        "key": "the key",
        "max_attempts": 9,
        "max_crashes": 8,
        "timeout_ms": None,
        "tags": {"a": "b"},
        "actor": "me",
    }
    enqueue(connection, emptied_schema, json.dumps([job]))
    (found,) = stored(connection, emptied_schema)
    assert (found["kind"], found["queue"], found["priority"], found["state"]) == ("a.b:c-d_1", "high", 0, "scheduled")
    assert found["payload"] == job["args"]
    assert found["run_at"].isoformat().startswith("2038-01-19")
    assert (found["unique_key"], found["idempotency_key"]) == ("the unique key", "the key")
    assert (found["max_attempts"], found["max_crashes"], found["timeout_ms"]) == (9, 8, None)
    assert (found["tags"], found["actor"]) == ({"a": "b"}, "me")
    again = enqueue(connection, emptied_schema, json.dumps([job]))
    assert again == [(1, found["id"], True, False)]


def test_a_delay_and_a_timeout(connection: Any, emptied_schema: str) -> None:
    enqueue(connection, emptied_schema, '[{"kind": "k", "delay_ms": 90000, "timeout_ms": 1500}]')
    (job,) = stored(connection, emptied_schema)
    assert job["run_at"] - job["enqueued_at"] == timedelta(seconds=90)
    assert (job["state"], job["timeout_ms"]) == ("scheduled", 1_500)


def test_nulls_are_as_good_as_missing_fields(connection: Any, emptied_schema: str) -> None:
    nulls = ["queue", "priority", "run_at", "delay_ms", "unique", "unique_for_ms", "key", "max_attempts"]
    nulls += ["max_crashes", "tags", "actor"]
    enqueue(connection, emptied_schema, json.dumps([{"kind": "k", **dict.fromkeys(nulls)}]))
    (job,) = stored(connection, emptied_schema)
    assert (job["queue"], job["priority"], job["max_attempts"], job["max_crashes"]) == ("default", 5, 5, 3)
    assert (job["timeout_ms"], job["tags"], job["unique_key"]) == (3_600_000, None, None)


def test_the_limits_themselves_are_accepted(connection: Any, emptied_schema: str) -> None:
    deep: Any = 1
    for _ in range(63):
        deep = [deep]  # with the payload itself 64 levels
    jobs = [
        {"kind": "x" * 64, "queue": "y" * 64},
        {"kind": "k", "args": {"a": deep}},
        {"kind": "k", "args": {"a": "x" * (256_000 - len('{"a": ""}'))}},
        {"kind": "k", "args": {"a": 1.7976931348623157e308}},
        {"kind": "k", "key": "ü" * 256, "unique": "k" * 512},
        {"kind": "k", "actor": "a" * 256},
        {"kind": "k", "run_at": "1970-01-01Z"},
        {"kind": "k", "run_at": "9998-12-31T23:59:59.999Z"},
    ]
    answers = enqueue(connection, emptied_schema, json.dumps(jobs))
    assert [answer[2:] for answer in answers] == [(False, False)] * len(jobs)
    assert len(stored(connection, emptied_schema)) == len(jobs)


def test_every_note_is_accepted_in_its_form(connection: Any, emptied_schema: str) -> None:
    extra = {
        "phases": [["fetch", 1], ["work", 2.5]],
        "on_restart": "fail",
        "webhook": {"url": "https://a.org/x?y=1", "events": ["job:failed", "job:completed"]},
        "estimate": 5_000_000,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=b",
    }
    enqueue(connection, emptied_schema, json.dumps([{"kind": "k", "extra": extra}, {"kind": "k", "extra": None}]))
    one, other = stored(connection, emptied_schema)
    assert (one["extra"], other["extra"]) == (extra, None)


def test_no_job_at_all(connection: Any, emptied_schema: str) -> None:
    assert enqueue(connection, emptied_schema, "[]") == []


def test_answers_come_in_order_and_say_what_was_met(connection: Any, emptied_schema: str) -> None:
    jobs = [
        {"kind": "k", "key": "z"},
        {"kind": "k"},
        {"kind": "k", "key": "z"},
        {"kind": "k", "key": "z", "args": {"other": 1}},
        {"kind": "k", "unique": "a"},
        {"kind": "K", "unique": "a"},
        {"kind": "other", "unique": "a"},
    ]
    answers = enqueue(connection, emptied_schema, json.dumps(jobs))
    assert [answer[0] for answer in answers] == [1, 2, 3, 4, 5, 6, 7]
    assert [answer[2] for answer in answers] == [False, False, True, True, False, True, False]
    assert [answer[3] for answer in answers] == [False, False, False, True, False, False, False]
    ids = [answer[1] for answer in answers]
    assert ids[2] == ids[3] == ids[0]
    assert ids[5] == ids[4]
    assert len(stored(connection, emptied_schema)) == 4


async def test_asyncpg_by_hand(other: Asyncpg, emptied_schema: str) -> None:
    text = json.dumps([{"kind": "k", "args": {"n": 1}}, {"kind": "k", "key": "x"}])
    async with other.transaction():
        rows = await other.fetch(f"SELECT * FROM {emptied_schema}.enqueue_v1($1)", text)
        assert [dict(row)["ordinal"] for row in rows] == [1, 2]
        assert await other.fetchval(f"SELECT count(*) FROM {emptied_schema}.jobs") == 2


async def test_a_job_by_hand_is_a_job_like_any_other(connection: Any, dsn: str, emptied_schema: str) -> None:
    ((_, job_id, _, _),) = enqueue(connection, emptied_schema, '[{"kind": "k", "args": {"big": 9007199254740993}}]')
    connection.commit()
    store = PostgresStore(dsn, schema=emptied_schema)
    await store.open()
    (job,) = await store.get_jobs([job_id or 0])
    await store.close()
    assert (job.kind, job.payload) == ("k", {"big": 9_007_199_254_740_993})


# ---- refused ---------------------------------------------------------------------------------------------------------

DEEP = '{"a": ' * 65 + "1" + "}" * 65
REFUSED = {
    "unknown field": ('[{"kind": "k", "prio": 1}]', "job 1: unknown field prio; expected one of kind, args"),
    "parent": ('[{"kind": "k", "parent": 7}]', "job 1: unknown field parent; expected one of kind, args"),
    "both names of args": ('[{"kind": "k", "args": {}, "payload": {}}]', "job 1: expected args or payload"),
    "missing kind": ('[{"kind": "k"}, {"args": {}}]', "job 2: kind is missing"),
    "null kind": ('[{"kind": null}]', "job 1: kind is missing"),
    "kind with a space": ('[{"kind": "a b"}]', "job 1: kind: expected 1 to 64 letters"),
    "kind with a newline": ('[{"kind": "a\\n"}]', "job 1: kind: expected 1 to 64 letters"),
    "kind with an umlaut": ('[{"kind": "größe"}]', "job 1: kind: expected 1 to 64 letters"),
    "long kind": (json.dumps([{"kind": "k" * 65}]), "job 1: kind: expected 1 to 64 letters"),
    "empty kind": ('[{"kind": ""}]', "job 1: kind: expected 1 to 64 letters"),
    "bad queue": ('[{"kind": "k", "queue": "a/b"}]', "job 1: queue: expected 1 to 64 letters"),
    "empty queue": ('[{"kind": "k", "queue": ""}]', "job 1: queue: expected 1 to 64 letters"),
    "args no object": ('[{"kind": "k", "args": [1]}]', "job 1: args: expected an object"),
    "args null": ('[{"kind": "k", "args": null}]', "job 1: args: expected an object"),
    "deep args": (f'[{{"kind": "k", "args": {DEEP}}}]', "job 1: args: expected at most 64 levels"),
    "deep arrays": (
        f'[{{"kind": "k", "args": {{"a": {"[" * 65}{"]" * 65}}}}}]',
        "job 1: args: expected at most 64 levels",
    ),
    "large args": (
        json.dumps([{"kind": "k", "args": {"a": "x" * 256_000}}]),
        "job 1: args: expected at most 256000 bytes",
    ),
    "infinite number": ('[{"kind": "k", "args": {"a": [1e400]}}]', "job 1: args: expected numbers"),
    "minus infinite number": ('[{"kind": "k", "args": {"a": -1e400}}]', "job 1: args: expected numbers"),
    "both times": (
        '[{"kind": "k", "run_at": "2030-01-01Z", "delay_ms": 5}]',
        "job 1: run_at and delay_ms exclude each other",
    ),
    "unique_for alone": ('[{"kind": "k", "unique_for_ms": 5}]', "job 1: unique_for_ms needs unique"),
    "empty unique": ('[{"kind": "k", "unique": ""}]', "job 1: unique: expected 1 to 512 bytes"),
    "long unique": (json.dumps([{"kind": "k", "unique": "u" * 513}]), "job 1: unique: expected 1 to 512 bytes"),
    "empty key": ('[{"kind": "k", "key": ""}]', "job 1: key: expected 1 to 512 bytes"),
    "long key": (json.dumps([{"kind": "k", "key": "ü" * 257}]), "job 1: key: expected 1 to 512 bytes"),
    "no object": ('[{"kind": "k"}, 5]', "job 2: expected an object, got number"),
    "array in array": ('[[{"kind": "k"}]]', "job 1: expected an object, got array"),
    "null job": ("[null]", "job 1: expected an object, got null"),
    "object": ('{"kind": "k"}', "expected a JSON array of jobs, got object"),
    "text": ('"k"', "expected a JSON array of jobs, got string"),
    "JSON null": ("null", "expected a JSON array of jobs, got null"),
    "run_at infinity": ('[{"kind": "k", "run_at": "infinity"}]', "job 1: run_at"),
    "run_at -infinity": ('[{"kind": "k", "run_at": "-infinity"}]', "job 1: run_at"),
    "run_at too late": ('[{"kind": "k", "run_at": "9999-01-01Z"}]', "job 1: run_at"),
    "run_at too early": ('[{"kind": "k", "run_at": "1969-12-31T23:59:59Z"}]', "job 1: run_at"),
    "run_at no time": ('[{"kind": "k", "run_at": "soon"}]', "job 1: run_at"),
    "negative delay": ('[{"kind": "k", "delay_ms": -5}]', "job 1: delay_ms"),
    "delay beyond all years": ('[{"kind": "k", "delay_ms": 9223372036854775807}]', "job 1: delay_ms"),
    "delay no number": ('[{"kind": "k", "delay_ms": "5 s"}]', "job 1: delay_ms"),
    "priority below": ('[{"kind": "k", "priority": -1}]', "job 1: priority"),
    "priority above": ('[{"kind": "k", "priority": 11}]', "job 1: priority"),
    "priority far above": ('[{"kind": "k", "priority": 100000}]', "job 1: priority"),
    "priority no number": ('[{"kind": "k", "priority": "high"}]', "job 1: priority"),
    "no attempts": ('[{"kind": "k", "max_attempts": 0}]', "job 1: max_attempts"),
    "no crashes": ('[{"kind": "k", "max_crashes": 0}]', "job 1: max_crashes"),
    "no timeout": ('[{"kind": "k", "timeout_ms": 0}]', "job 1: timeout_ms"),
    "unique_for zero": ('[{"kind": "k", "unique": "u", "unique_for_ms": 0}]', "job 1: unique_for_ms"),
    "unique_for negative": ('[{"kind": "k", "unique": "u", "unique_for_ms": -1}]', "job 1: unique_for_ms"),
    "tags no object": ('[{"kind": "k", "tags": ["a"]}]', "job 1: tags"),
    "tag no text": ('[{"kind": "k", "tags": {"a": 5}}]', "job 1: tags"),
    "extra that is a list": ('[{"kind": "k", "extra": []}]', "job 1: extra: expected an object"),
    "unknown note": ('[{"kind": "k", "extra": {"permit_at": 1}}]', "job 1: extra.permit_at: expected one of phases"),
    "webhook without a place": ('[{"kind": "k", "extra": {"webhook": {}}}]', "job 1: extra.webhook: expected {"),
    "webhook that is text": ('[{"kind": "k", "extra": {"webhook": "x"}}]', "job 1: extra.webhook: expected {"),
    "webhook to a file": ('[{"kind": "k", "extra": {"webhook": {"url": "file:///x"}}}]', "job 1: extra.webhook"),
    "webhook of unknown events": (
        '[{"kind": "k", "extra": {"webhook": {"url": "https://a.org", "events": ["job:born"]}}}]',
        "job 1: extra.webhook",
    ),
    "webhook of one event": (
        '[{"kind": "k", "extra": {"webhook": {"url": "https://a.org", "events": "job:failed"}}}]',
        "job 1: extra.webhook",
    ),
    "phases that are a number": ('[{"kind": "k", "extra": {"phases": 5}}]', "job 1: extra.phases: expected a list"),
    "phases without weights": ('[{"kind": "k", "extra": {"phases": ["a"]}}]', "job 1: extra.phases: expected a list"),
    "phases that weigh nothing": ('[{"kind": "k", "extra": {"phases": [["a", 0]]}}]', "job 1: extra.phases"),
    "on_restart of no sort": (
        '[{"kind": "k", "extra": {"on_restart": 1}}]',
        'job 1: extra.on_restart: expected "fail"',
    ),
    "estimate that is text": ('[{"kind": "k", "extra": {"estimate": "1"}}]', "job 1: extra.estimate: expected a whole"),
    "estimate of 20 digits": (
        '[{"kind": "k", "extra": {"estimate": 1e19}}]',
        "job 1: extra.estimate: expected a whole",
    ),
    "traceparent of no sort": (
        '[{"kind": "k", "extra": {"traceparent": "x"}}]',
        "job 1: extra.traceparent: expected a",
    ),
    "tracestate that is an object": ('[{"kind": "k", "extra": {"tracestate": {}}}]', "job 1: extra.tracestate"),
    "long actor": (json.dumps([{"kind": "k", "actor": "a" * 257}]), "job 1: actor"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_worker_could_read_is_refused(connection: Any, emptied_schema: str, case: str) -> None:
    text, message = REFUSED[case]
    with pytest.raises(psycopg.Error) as caught:
        enqueue(connection, emptied_schema, text)
    assert caught.value.diag.message_primary is not None
    assert caught.value.diag.message_primary.startswith(f"enqueue_v1: {message}")
    assert caught.value.sqlstate == "22023"  # invalid_parameter_value
    connection.rollback()
    assert stored(connection, emptied_schema) == []


def test_sql_null_is_refused(connection: Any, emptied_schema: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="expected a JSON array of jobs, got null"):
        connection.execute(f"SELECT * FROM {emptied_schema}.enqueue_v1(NULL)".encode())


def test_nul_is_refused_by_postgresql_itself(connection: Any, emptied_schema: str) -> None:
    with pytest.raises(psycopg.errors.UntranslatableCharacter):
        enqueue(connection, emptied_schema, '[{"kind": "k", "args": {"a": "\\u0000"}}]')


def test_one_wrong_job_stores_none(connection: Any, emptied_schema: str) -> None:
    with pytest.raises(psycopg.Error), connection.transaction():
        enqueue(connection, emptied_schema, '[{"kind": "a"}, {"kind": "b", "key": "x"}, {"kind": ""}]')
    assert stored(connection, emptied_schema) == []


# ---- the hint --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def hints(other: Asyncpg, emptied_schema: str) -> "AsyncIterator[asyncio.Queue[str]]":
    """Listen to the hints of the schema."""
    oid = await other.fetchval(f"SELECT '{emptied_schema}.jobs'::regclass::oid")
    heard: asyncio.Queue[str] = asyncio.Queue()
    await other.add_listener(f"holdfast:{oid}", lambda *message: heard.put_nowait(str(message[3])))
    yield heard
    await other.reset()


async def heard_before_the_end(hints: "asyncio.Queue[str]", connection: Any, emptied_schema: str) -> list[str]:
    """Send a last hint, and collect all that came before it: hints come in the order of commits."""
    enqueue(connection, emptied_schema, '[{"kind": "k", "queue": "the-end"}]')
    connection.commit()
    found: list[str] = []
    async with asyncio.timeout(20):
        while (queue := await hints.get()) != "the-end":
            found.append(queue)
    return found


def test_what_is_left_out_is_as_programs_have_published_it(connection: Any, emptied_schema: str) -> None:
    definition = {"priority": 2, "max_attempts": 9, "max_crashes": 1, "timeout_ms": None}
    publish(connection, emptied_schema, definition)
    enqueue(connection, emptied_schema, '[{"kind": "Published"}, {"kind": "published", "queue": "x", "timeout_ms": 7}]')
    one, other = stored(connection, emptied_schema)
    assert (one["queue"], one["priority"], one["max_attempts"]) == ("mail", 2, 9)
    assert (one["max_crashes"], one["timeout_ms"]) == (1, None)
    assert (other["queue"], other["timeout_ms"]) == ("x", 7)


def test_what_a_rate_limit_refuses_is_raised_and_stores_nothing(connection: Any, emptied_schema: str) -> None:
    publish(connection, emptied_schema, {})
    limit = f"""INSERT INTO {emptied_schema}.limits (
        name, definition, queue, kinds, path, scope, burst, rate_us, rate_burst, rotate, fifo, changed_at
    ) VALUES ('mails', '{{}}', 'mail', '{{}}', '{{}}', 'cluster', 1, 60000000, 1, false, false, now())"""
    connection.execute(limit)
    connection.execute(f"INSERT INTO {emptied_schema}.queues (name, screened) VALUES ('mail', true)")
    connection.commit()
    try:
        enqueue(connection, emptied_schema, '[{"kind": "published"}]')
        with pytest.raises(psycopg.Error, match="the rate limit mails refuses it") as refused, connection.transaction():
            enqueue(connection, emptied_schema, '[{"kind": "other"}, {"kind": "published"}]')
        assert refused.value.sqlstate == "53400"
        assert refused.value.diag.message_hint is not None
        assert refused.value.diag.message_hint.startswith("Try again in ")
        assert [job["kind"] for job in stored(connection, emptied_schema)] == ["published"]
    finally:
        connection.rollback()
        for table in ("limits", "queues", "kinds"):
            connection.execute(f"DELETE FROM {emptied_schema}.{table}")
        connection.commit()


def publish(connection: Any, schema: str, definition: dict[str, Any]) -> None:
    """Let a kind be known to the store."""
    sql = f"INSERT INTO {schema}.kinds (name, queue, definition, published_at) VALUES ('published', 'mail', %s, now())"
    connection.execute(sql, [json.dumps(definition)])


async def test_a_commit_hints_once_for_each_queue(
    connection: Any, emptied_schema: str, hints: "asyncio.Queue[str]"
) -> None:
    jobs = [{"kind": "k"}, {"kind": "k", "queue": "High"}, {"kind": "k", "queue": "high"}, {"kind": "k"}]
    enqueue(connection, emptied_schema, json.dumps(jobs))
    enqueue(connection, emptied_schema, json.dumps(jobs))
    assert hints.empty()
    connection.commit()
    assert sorted(await heard_before_the_end(hints, connection, emptied_schema)) == ["default", "high"]


async def test_a_rollback_hints_nothing(connection: Any, emptied_schema: str, hints: "asyncio.Queue[str]") -> None:
    enqueue(connection, emptied_schema, '[{"kind": "k"}]')
    connection.rollback()
    assert await heard_before_the_end(hints, connection, emptied_schema) == []


async def test_before_the_commit_there_is_no_hint(
    connection: Any, emptied_schema: str, dsn: str, hints: "asyncio.Queue[str]"
) -> None:
    enqueue(connection, emptied_schema, '[{"kind": "k", "queue": "late"}]')
    with psycopg.connect(dsn) as another:
        assert await heard_before_the_end(hints, another, emptied_schema) == []
    connection.commit()
    assert await heard_before_the_end(hints, connection, emptied_schema) == ["late"]
