"""The jobs API: enqueue, find, read, act, and who may."""

import asyncio
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from holdfast import Context, Holdfast
from holdfast.server.settings import ServerSettings
from holdfast.stores.access import AuditFilter
from holdfast.telemetry import redaction
from tests.server.asking import asking
from tests.support.workers import drained

JOBS = "/api/v1/jobs"


def define(app: Holdfast) -> None:
    @app.task(queue="high")
    async def greet(name: str, times: int = 1) -> str:
        return f"hello {name}" * times

    @app.task(queue="low", max_attempts=1)
    async def login(user: str, password: SecretStr) -> dict[str, Any]:
        if user == "mallory":
            message = f"refused {password.get_secret_value()}"
            raise ValueError(message)
        return {"user": user}

    @app.task(queue="low", phases=("fetch", "work"), max_attempts=1)
    async def build(ctx: Context, pages: list[str], fails: bool = True) -> str:
        async with ctx.phase("fetch"):
            ctx.log.info("fetched %s pages", len(pages))
        async with ctx.phase("work"), ctx.items("pages", pages) as items:
            await items.each(work)
        if fails:
            message = "the last page is missing"
            raise LookupError(message)
        return "built"

    async def work(page: str) -> None:
        if page.startswith("bad"):
            message = f"{page} is broken"
            raise ValueError(message)


def problem(answer: httpx2.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["type"].removeprefix("urn:holdfast:")


async def test_enqueue_checks_arguments_and_answers_with_the_job(memory_app: Holdfast) -> None:
    define(memory_app)
    async with asking(memory_app, "operator") as web:
        asked = {"kind": "Greet", "args": {"name": "Ada"}, "tags": {"customer": "17"}, "priority": 2, "delay": "1h"}
        answer = await web.post(JOBS, json=asked | {"timeout": None, "max_attempts": 7})
        job = answer.json()
        assert (answer.status_code, answer.headers["location"]) == (201, f"{JOBS}/{job['id']}")
        told = {name: job[name] for name in ("kind", "queue", "state", "args", "tags", "priority", "actor")}
        assert told == {
            "kind": "greet",
            "queue": "high",
            "state": "scheduled",
            "args": {"name": "Ada"},
            "tags": {"customer": "17"},
            "priority": 2,
            "actor": "operator",
        }
        assert (job["timeout_ms"], job["max_attempts"], job["attempts"]) == (None, 7, [])
        assert (await web.get(answer.headers["location"])).json() | {"created": True} == job
        for wrong, code, said in (
            ({"kind": "greet", "args": {"name": 5}}, "arguments", "expected `str`"),
            ({"kind": "greet", "args": {}}, "arguments", "name"),
            ({"kind": "greet", "args": {"name": "x", "age": 3}}, "arguments", "age"),
            ({"kind": "gret", "args": {"name": "x"}}, "unknown-kind", "did you mean greet?"),
            ({"kind": "no such"}, "invalid-value", "kind: expected 1 to 64 letters"),
            ({"kind": "greet", "args": {"name": "x"}, "queue": "low"}, "invalid-value", "belong to 'high'"),
            ({"kind": "greet", "args": {"name": "x"}, "delay": "soon"}, "invalid-value", "delay: expected seconds"),
            ({"kind": "greet", "args": {"name": "x"}, "priority": 11}, "invalid-request", "less than or equal to 10"),
            ({"kind": "greet", "args": {"name": "x"}, "prio": 1}, "invalid-request", "body.prio"),
            ({"args": {}}, "invalid-request", "body.kind"),
            ([1], "invalid-request", "body"),
        ):
            answer = await web.post(JOBS, json=wrong)
            assert problem(answer) == (422, code), answer.text
            assert said in answer.json()["detail"]


async def test_the_same_key_is_the_same_job(memory_app: Holdfast) -> None:
    define(memory_app)
    asked = {"kind": "greet", "args": {"name": "Ada"}}
    async with asking(memory_app, "operator") as web:
        first = await web.post(JOBS, json=asked, headers={"idempotency-key": "order-17"})
        again = await web.post(JOBS, json=asked | {"key": "order-17"})
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["id"] == again.json()["id"]
        other = await web.post(JOBS, json={"kind": "greet", "args": {"name": "Grace"}, "key": "order-17"})
        assert problem(other) == (409, "key-conflict")
        answer = await web.post(JOBS, json=asked | {"key": "a"}, headers={"idempotency-key": "b"})
        assert problem(answer) == (422, "invalid-value")
        assert (await web.post(JOBS, json=asked | {"unique": "u"})).status_code == 201
        assert (await web.post(JOBS, json=asked | {"unique": "u"})).status_code == 200
    deeds = await memory_app.store.list_audit(AuditFilter(), limit=9)
    assert {(deed.action, deed.actor) for deed in deeds} == {("enqueue_job", "operator")}
    assert [deed.queue for deed in deeds if deed.status == 201] == ["high", "high"]
    assert not any("Ada" in deed.detail for deed in deeds)


HOSTILE = {
    "not json": b"{",
    "empty": b"",
    "not utf-8": b'{"kind": "\xff"}',
    "utf-16": '{"kind": "greet"}'.encode("utf-16"),
    "nan": b'{"kind": "greet", "args": {"name": NaN}}',
    "infinity": b'{"kind": "greet", "args": {"name": -Infinity}}',
    "too large a float": b'{"kind": "greet", "args": {"name": 1e400}}',
    "too large a number": b'{"kind": "greet", "args": {"name": 18446744073709551616}}',
    "5,000 digits": b'{"kind": "greet", "args": {"name": ' + b"9" * 5_000 + b"}}",
    "twice": b'{"kind": "greet", "kind": "login", "args": {"name": "x"}}',
    "twice inside": b'{"kind": "greet", "args": {"name": "x", "name": "y"}}',
    "surrogate": b'{"kind": "greet", "args": {"name": "\\ud800"}}',
    "surrogate as name": b'{"kind": "greet", "\\udfff": 1}',
    "nul": b'{"kind": "greet", "args": {"name": "a\\u0000b"}}',
    "deep": b'{"kind": "greet", "args": {"name": ' + b"[" * 100 + b"]" * 100 + b"}}",
    "too deep for a reader": b'{"kind": "greet", "args": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
}


@pytest.mark.parametrize("path", ["", "/batch"])
async def test_a_body_that_means_two_things_is_refused(memory_app: Holdfast, path: str) -> None:
    define(memory_app)
    async with asking(memory_app, "operator") as web:
        for name, body in HOSTILE.items():
            sent = b'{"jobs": [' + body + b"]}" if path else body
            answer = await web.post(JOBS + path, content=sent, headers={"content-type": "application/json"})
            assert problem(answer)[0] == 422, (name, answer.text)
        answer = await web.post(JOBS + path, content=b"[1]", headers={"content-type": "text/plain"})
        assert problem(answer)[0] == 422
        big = b'{"kind": "' + b"x" * 1_100_000 + b'"}'

        async def chunks() -> Any:
            for start in range(0, len(big), 100_000):
                yield big[start : start + 100_000]

        for content in (big, chunks()):
            answer = await web.post(JOBS + path, content=content, headers={"content-type": "application/json"})
            assert problem(answer) == (413, "too-large")
        assert not (await web.get(JOBS)).json()["jobs"]


async def test_a_batch_has_one_answer_for_each_job(memory_app: Holdfast) -> None:
    define(memory_app)
    async with asking(memory_app, "operator") as web:
        jobs = [
            {"kind": "greet", "args": {"name": "a"}, "key": "one"},
            {"kind": "greet", "args": {"name": 1}},
            {"kind": "nobody"},
            {"kind": "login", "args": {"user": "u", "password": "p"}},
        ]
        answer = await web.post(f"{JOBS}/batch", json={"jobs": jobs})
        told = answer.json()
        assert [one["status"] for one in told["jobs"]] == [201, 422, 422, 201]
        kinds = [one["error"] and one["error"]["type"] for one in told["jobs"]]
        assert kinds == [None, "urn:holdfast:arguments", "urn:holdfast:unknown-kind", None]
        assert (told["created"], told["refused"]) == (2, 2)
        again = (await web.post(f"{JOBS}/batch", json={"jobs": jobs[:1]})).json()
        assert again["jobs"] == [{"status": 200, "id": told["jobs"][0]["id"], "error": None}]
        many = [{"kind": "greet", "args": {"name": str(n)}} for n in range(1_001)]
        assert problem(await web.post(f"{JOBS}/batch", json={"jobs": many})) == (422, "invalid-request")
        answer = await web.post(f"{JOBS}/batch", json={"jobs": many[:1_000]})
        assert answer.json()["created"] == 1_000
        names = {job.args.get("name") for job in [found async for found in memory_app.jobs.iterate()]}
        assert {str(n) for n in range(1_000)} <= names


async def test_lists_go_by_filter_and_by_pages(app: Holdfast) -> None:
    define(app)
    async with asking(app, "operator") as web:
        jobs = [{"kind": "greet", "args": {"name": f"n{n}"}, "tags": {"n": str(n)}} for n in range(7)]
        told = (await web.post(f"{JOBS}/batch", json={"jobs": jobs})).json()
        ids = [one["id"] for one in told["jobs"]]
        await web.post(JOBS, json={"kind": "login", "args": {"user": "u", "password": "hunter2"}})
        seen: list[str] = []
        address: str | None = f"{JOBS}?q=kind:greet&limit=3"
        sizes = []
        while address is not None:
            answer = await web.get(address)
            page = answer.json()
            sizes.append(len(page["jobs"]))
            seen += [job["id"] for job in page["jobs"]]
            link = answer.links.get("next")
            address = None if link is None else link["url"]
            assert (link is None) == (page["next"] is None)
        assert (sorted(seen), sizes) == (sorted(ids), [3, 3, 1])
        found = (await web.get(JOBS, params={"q": "tag:n=3 state:queued"})).json()["jobs"]
        assert [job["id"] for job in found] == [ids[3]]
        assert "args" not in found[0]
        whole = (await web.get(JOBS, params={"q": "kind:login", "whole": "true"})).json()["jobs"]
        assert whole[0]["args"] == {"user": "u", "password": "**********"}
        for q, said in (("stat:failed", "did you mean state"), ("state:lost", "there is no state"), ('"', "quotes")):
            answer = await web.get(JOBS, params={"q": q})
            assert problem(answer)[0] == 422
            assert said in answer.json()["detail"]
        for params in ({"limit": 0}, {"limit": "x"}, {"after": "yesterday"}, {"q": "x" * 3_000}, {"after": "\x00/"}):
            assert problem(await web.get(JOBS, params=params))[0] == 422
        assert len((await web.get(JOBS, params={"limit": 10**30})).json()["jobs"]) == 8


async def test_a_job_is_told_whole_and_in_parts(memory_app: Holdfast) -> None:
    define(memory_app)
    async with asking(memory_app) as web:
        asked = {"kind": "build", "args": {"pages": ["a", "bad", "c"]}}
        job = (await web.post(JOBS, json=asked)).json()["id"]
        why = (await web.get(f"{JOBS}/{job}/why")).json()
        assert (why["reason"], why["details"]["queue"]) == ("no_worker", "low")
        await drained(memory_app)
        whole = (await web.get(f"{JOBS}/{job.upper().replace('-', '')}")).json()
        assert (whole["state"], whole["error_class"], whole["error"]) == (
            "failed",
            "LookupError",
            "the last page is missing",
        )
        assert [(phase["name"], phase["state"]) for phase in whole["phases"]] == [
            ("fetch", "completed"),
            ("work", "completed"),
        ]
        assert whole["items"] == {"pages": {"total": 3, "completed": 2, "skipped": 0, "failed": 1, "in_progress": 0}}
        assert "missing" in whole["traceback"]
        items = (await web.get(f"{JOBS}/{job}/items", params={"limit": 1})).json()
        broken = {"set": "pages", "key": "bad", "state": "failed", "note": "ValueError: bad is broken"}
        assert items["items"] == [broken]
        more = (await web.get(f"{JOBS}/{job}/items", params={"after": items["next"], "state": "completed"})).json()
        assert [item["key"] for item in more["items"]] == ["c"]
        logs = (await web.get(f"{JOBS}/{job}/logs")).json()["logs"]
        assert [line["text"] for line in logs] == ["fetched 3 pages"]
        after = f"{logs[0]['claim']}-{logs[0]['line']}"
        assert (await web.get(f"{JOBS}/{job}/logs", params={"after": after})).json()["logs"] == []
        events = (await web.get(f"{JOBS}/{job}/events")).json()["events"]
        assert [event["target"] for event in events] == ["queued", "running", "failed"]
        assert (await web.get(f"{JOBS}/{job}/attempts")).json()["attempts"] == whole["attempts"]
        for part in ("", "/why", "/events", "/logs", "/items", "/attempts"):
            assert problem(await web.get(f"{JOBS}/htcx-2s16-z48b-09{part}")) == (404, "not-found")
            assert problem(await web.get(f"{JOBS}/htcx-2s16-z48b-08{part}")) == (422, "invalid-value")


async def test_what_is_secret_is_never_told(memory_app: Holdfast) -> None:
    define(memory_app)
    async with asking(memory_app) as web:
        asked = {"kind": "login", "args": {"user": "mallory", "password": "hunter22"}}
        job = (await web.post(JOBS, json=asked)).json()["id"]
        await drained(memory_app)
        new = await web.post(f"{JOBS}/{job}/clone", json={"args": {"password": "hunter33"}})
        assert (new.status_code, new.json()["origin"]) == (201, job)
        stored = (await memory_app.jobs.get(new.json()["id"])).args
        assert stored == {"user": "mallory", "password": {"$secret": "hunter33"}}
        parts = ("", "/why", "/events", "/logs", "/items", "/attempts")
        told = [await web.get(f"{JOBS}/{one}{part}") for one in (job, new.json()["id"]) for part in parts]
        told += [new, await web.get(JOBS, params={"whole": "true"}), await web.get(f"/queue/jobs/{job}")]
        assert all(answer.is_success for answer in told)
        assert not [answer.url for answer in told if "hunter" in answer.text]
    deeds = await memory_app.store.list_audit(AuditFilter(), limit=9)
    assert not any("hunter" in deed.detail for deed in deeds)


async def test_a_secret_of_the_settings_that_a_handler_quotes_is_covered(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_pattern", None)

    @memory_app.task(max_attempts=1)
    async def quote(ctx: Context) -> None:
        ctx.log.warning("with swordfish9")
        message = "cannot log in as app:swordfish9"
        raise ConnectionError(message)

    async with asking(memory_app) as web:
        job = (await quote.enqueue()).id
        await drained(memory_app)
        assert "swordfish9" in (await web.get(f"{JOBS}/{job}")).json()["error"]
        redaction.keep(["swordfish9"])
        for path in (JOBS, *(f"{JOBS}/{job}{part}" for part in ("", "/logs", "/events", "/attempts", "/why"))):
            assert "swordfish9" not in (await web.get(path)).text
        assert "swordfish9" not in (await web.get(f"/queue/jobs/{job}")).text


async def test_acting_on_a_job(app: Holdfast) -> None:
    define(app)
    async with asking(app) as web:

        async def act(job: str, verb: str, **asked: Any) -> httpx2.Response:
            return await web.post(f"{JOBS}/{job}/{verb}", json=asked)

        job = (await web.post(JOBS, json={"kind": "build", "args": {"pages": ["a"]}})).json()["id"]
        assert (await act(job, "reprioritise", priority=9)).json()["priority"] == 9
        late = (await act(job, "reschedule", run_at="2030-01-01T00:00:00+02:00")).json()
        assert (late["state"], late["run_at"]) == ("scheduled", "2029-12-31T22:00:00Z")
        assert (await act(job, "reschedule", delay=0)).json()["state"] in ("queued", "scheduled")
        assert problem(await act(job, "reschedule")) == (422, "invalid-value")
        assert problem(await act(job, "reschedule", run_at=5)) == (422, "invalid-request")
        assert problem(await act(job, "retry")) == (409, "wrong-state")
        assert problem(await act(job, "clone")) == (409, "wrong-state")
        assert problem(await web.delete(f"{JOBS}/{job}")) == (409, "wrong-state")
        await drained(app)
        assert problem(await act(job, "cancel")) == (409, "wrong-state")
        assert problem(await act(job, "retry", from_phase="none")) == (422, "invalid-value")
        again = (await act(job, "retry", from_phase="work")).json()
        assert (again["run"], again["state"]) == (2, "queued")
        assert [phase["state"] for phase in again["phases"]] == ["completed", "pending"]
        cancelled = (await act(job, "cancel", reason="no longer wanted")).json()
        told = (cancelled["state"], cancelled["cancelled_by"], cancelled["cancel_reason"])
        assert told == ("cancelled", "admin", "no longer wanted")
        answer = await act(job, "clone", args={"fails": "no"})
        assert problem(answer) == (422, "arguments")
        replayed = (await act(job, "clone", args={"fails": False})).json()
        assert (replayed["args"], replayed["origin"]) == ({"pages": ["a"], "fails": False}, job)
        gone = await web.delete(f"{JOBS}/{job}")
        assert (gone.status_code, gone.content) == (204, b"")
        assert problem(await web.get(f"{JOBS}/{job}")) == (404, "not-found")
        assert (await web.post(f"{JOBS}/{replayed['id']}/cancel")).json()["state"] == "cancelled"
    deeds = await app.store.list_audit(AuditFilter(), limit=30)
    done = [(deed.action, deed.queue) for deed in deeds if deed.status < 300]
    assert done[:2] == [("cancel_job", "low"), ("delete_job", "low")]


async def test_roles_and_queues_bound_what_is_seen_and_done(memory_app: Holdfast) -> None:
    define(memory_app)
    low = (await memory_app.tasks.get("build").using(key="taken").enqueue(pages=[])).id
    high = (await memory_app.tasks.get("greet").enqueue(name="x")).id
    nowhere = "htcx-2s16-z48b-09"
    async with asking(memory_app, "viewer") as web:
        assert problem(await web.post(JOBS, json={"kind": "greet", "args": {"name": "x"}})) == (403, "role")
        assert problem(await web.post(f"{JOBS}/{high}/cancel")) == (403, "role")
        assert len((await web.get(JOBS)).json()["jobs"]) == 2
    async with asking(memory_app, "operator") as web:
        assert problem(await web.delete(f"{JOBS}/{high}")) == (403, "role")
    async with asking(memory_app, "admin", ("high",)) as web:
        assert [job["id"] for job in (await web.get(JOBS)).json()["jobs"]] == [high]
        for q in ("queue:low", low, "kind:build"):
            assert (await web.get(JOBS, params={"q": q})).json()["jobs"] == []
        assert [kind["name"] for kind in (await web.get("/api/v1/kinds")).json()["kinds"]] == ["greet"]
        assert problem(await web.get("/api/v1/kinds/build")) == (404, "not-found")
        answer = await web.post(JOBS, json={"kind": "build", "args": {"pages": []}})
        assert problem(answer) == (422, "unknown-kind")
        assert "build" not in answer.json()["detail"].replace("kind 'build'", "")
        for method, part in (
            *(("GET", part) for part in ("", "/why", "/events", "/logs", "/items", "/attempts")),
            *(("POST", part) for part in ("/cancel", "/retry", "/clone")),
            ("DELETE", ""),
        ):
            hidden = await web.request(method, f"{JOBS}/{low}{part}")
            missing = await web.request(method, f"{JOBS}/{nowhere}{part}")
            assert problem(hidden) == problem(missing) == (404, "not-found")
            assert hidden.json()["detail"].replace(low, nowhere) == missing.json()["detail"]
        apart = await web.post(JOBS, json={"kind": "greet", "args": {"name": "x"}, "key": "taken"})
        assert apart.status_code == 201
        assert low not in apart.text
        assert problem(await web.get(f"/queue/jobs/{low}")) == (404, "not-found")
        assert (await web.get(f"/queue/jobs/{high}")).status_code == 200


async def test_kinds_nobody_knows_are_taken_where_that_is_allowed(memory_app: Holdfast) -> None:
    async with asking(memory_app, settings=ServerSettings(allow_unknown=True), knows_tasks=False) as web:
        answer = await web.post(JOBS, json={"kind": "later", "args": {"x": [1]}, "queue": "other"})
        assert (answer.status_code, answer.json()["queue"], answer.json()["args"]) == (201, "other", {"x": [1]})
    async with asking(memory_app, knows_tasks=False) as web:
        answer = await web.post(JOBS, json={"kind": "later"})
        assert problem(answer) == (422, "unknown-kind")
        assert "has a worker been started?" in answer.json()["detail"]


async def test_a_store_that_is_away_is_503(memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    define(memory_app)
    from holdfast.errors import StoreUnavailable

    async def away(*_: Any, **__: Any) -> Any:
        message = "password=secret host=db1"
        raise StoreUnavailable(message)

    async with asking(memory_app) as web:
        monkeypatch.setattr(memory_app.client.enqueuing, "_one", away)
        for path, asked in (("", {"kind": "greet", "args": {"name": "x"}}), ("/batch", {})):
            answer = await web.post(JOBS + path, json=asked or {"jobs": [{"kind": "greet", "args": {"name": "x"}}]})
            assert problem(answer) == (503, "store-unavailable")
            assert "secret" not in answer.text


async def test_enqueues_side_by_side_are_all_stored(memory_app: Holdfast) -> None:
    define(memory_app)
    async with asking(memory_app) as web:
        asked = [web.post(JOBS, json={"kind": "greet", "args": {"name": str(n)}}) for n in range(50)]
        answers = await asyncio.gather(*asked)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 50
