"""Policies: what programs publish, what people change of it, what holds, and kinds that move to another queue."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast.app import Holdfast
from holdfast.client.definitions import read_definitions
from holdfast.client.policies import Policies
from holdfast.client.services import LocalServices
from holdfast.client.settings import LocalSettings
from holdfast.client.settling import publish, settle
from holdfast.errors import ConfigError, InvalidValue
from holdfast.job import JobState
from holdfast.policies.budgets import Budget
from holdfast.policies.kinds import Kind
from holdfast.policies.limits import Limit
from holdfast.queues import Queue
from holdfast.schedules import Schedule
from holdfast.stores.policies import Move
from holdfast.stores.store import Store
from tests.support import raw
from tests.support.builders import claim_one, enqueue, enqueue_many, read, register
from tests.support.clock import Clock


@pytest.fixture(autouse=True)
async def _without_policies(store: Store) -> None:
    for table in ("policies", "kinds", "overrides", "limits", "queues", "budgets"):
        await raw.execute(store, f"DELETE FROM holdfast.{table}")


def program(*, queue: str = "default", task: dict[str, Any] | None = None, **options: Any) -> Holdfast:
    """An app with one task, `work`."""
    app = Holdfast("sqlite:///:memory:", **options)

    async def work(tenant: str, copies: int = 1) -> None:
        """Do nothing."""

    app.task(queue=queue, **(task or {}))(work)
    return app


async def started(store: Store, app: Holdfast) -> list[str]:
    """Publish as a worker does at its start."""
    definitions = read_definitions(app.config, app.tasks, app.schedule_definitions.values())
    return await publish(store, app.config, definitions)


def verbs(store: Store, app: Holdfast) -> LocalSettings:
    """What operators can do."""
    policies = Policies(store, app.config.deadline_s, LocalServices(store, app.config))
    return LocalSettings(policies, app.describe_settings)


TENANT = Limit(name="tenant", key="args.tenant", concurrency=3)


# ---- publishing ----------------------------------------------------------------------------------------------------


async def test_a_kind_is_published_with_what_holds_for_its_jobs(store: Store) -> None:
    app = program(
        queue="high",
        task={"limits": "tenant", "budget": "ai", "estimate": "$0.02", "note": "careful", "debounce": "5s"},
        limits=[TENANT],
        budgets=[Budget(name="ai", amount="$5")],
        queues=[Queue("high", priority=2, max_attempts=9, timeout="2m")],
        schedules=[Schedule(name="often", kind="work", every="5m", args={"tenant": "a"})],
    )
    await started(store, app)
    (kind,) = await store.list_kinds()
    assert (kind.name, kind.queue, kind.debounce_ms) == ("work", "high", 5_000)
    assert (kind.budget, kind.estimate) == ("ai", 20_000)
    told = msgspec.json.decode(kind.definition)
    assert told["handler"].endswith("program.<locals>.work")
    assert (told["note"], told["limits"], told["priority"]) == ("careful", ["tenant"], 2)
    assert (told["max_attempts"], told["timeout_ms"]) == (9, 120_000)
    assert told["cadence"][0].startswith("every 5 min")
    fields = next(iter(told["arguments"]["$defs"].values()))["properties"]
    assert fields["tenant"] == {"type": "string"}


async def test_limits_budgets_and_queues_hold_once_they_are_published(store: Store) -> None:
    app = program(
        queue="high",
        task={"limits": "tenant", "budget": "ai"},
        limits=[TENANT, Limit(name="calls", queue="low", rate="10/s")],
        budgets=[Budget(name="ai", amount="$5")],
        queues=[Queue("high", sla="30s", workers=4, colour="red")],
    )
    await started(store, app)
    calls, tenant = await store.list_limits()
    assert (tenant.name, tenant.kinds, tenant.concurrency) == ("tenant", ("work",), 3)
    assert tenant.path == ("payload", "tenant")
    assert (calls.queue, calls.rate_us, calls.rate_burst) == ("low", 100_000, 10)
    _, (budget,) = await store.read_budgets()
    assert (budget.name, budget.ceiling, budget.kinds) == ("ai", 5_000_000, ("work",))
    held = msgspec.json.decode((await store.list_queue_policies())["high"])
    assert (held["sla_ms"], held["workers"], held["colour"], held["age_after_ms"]) == (30_000, 4, "red", 600_000)
    assert await _flags(store, "gated") == {"high"}
    assert await _flags(store, "screened") == {"low"}


async def test_publishing_the_same_again_writes_nothing(store: Store, clock: Clock) -> None:
    app = program(limits=[TENANT], queues=[Queue("high", sla="30s")])
    await started(store, app)
    before = await store.list_policies()
    await clock.advance(seconds=5)
    await started(store, app)
    assert await store.list_policies() == before  # their times as well


async def test_the_last_start_wins(store: Store) -> None:
    await started(store, program(task={"limits": "tenant"}, limits=[TENANT]))
    await started(store, program(task={"limits": "tenant"}, limits=[Limit(name="tenant", concurrency=8)]))
    (limit,) = await store.list_limits()
    assert (limit.concurrency, limit.path) == (8, ())


async def test_what_is_defined_no_more_is_gone(store: Store) -> None:
    await started(store, program(task={"limits": "tenant"}, limits=[TENANT], queues=[Queue("default", sla="1s")]))
    await started(store, program())
    assert (await store.list_limits(), await store.list_queue_policies()) == ([], {})
    assert await _flags(store, "gated") == set()


async def test_a_program_forgets_nothing_of_another(store: Store) -> None:
    await started(store, program(task={"kind": "other", "limits": "tenant"}, queue="low", limits=[TENANT]))
    await started(store, program(queues=[Queue("default", sla="1s")]))
    (limit,) = await store.list_limits()
    assert limit.kinds == ("other",)
    assert {kind.name for kind in await store.list_kinds()} == {"other", "work"}


@pytest.mark.parametrize(
    "task, words",
    [
        ({"limits": "tenent"}, "did you mean 'tenant'"),
        ({"budget": "ia"}, "expected a budget that is defined, got 'ia'"),
        ({"budget": "ai", "estimate": "5 tokens"}, "expected an amount of usd"),
    ],
)
def test_a_name_that_nothing_has_is_refused_before_anything_starts(task: dict[str, Any], words: str) -> None:
    app = program(task=task, limits=[TENANT], budgets=[Budget(name="ai", amount="$5")])
    with pytest.raises(ConfigError, match=words):
        read_definitions(app.config, app.tasks, ())


# ---- changes at run time -------------------------------------------------------------------------------------------


async def test_a_change_holds_at_once_outlives_a_start_and_ends_with_its_reset(store: Store) -> None:
    app = program(task={"limits": "tenant"}, limits=[TENANT])
    await started(store, app)
    await verbs(store, app).set("limits.tenant.concurrency", 5, actor="anna", reason="slow supplier")
    assert [limit.concurrency for limit in await store.list_limits()] == [5]
    await started(store, program(task={"limits": "tenant"}, limits=[Limit(name="tenant", concurrency=8)]))
    (limit,) = await store.list_limits()
    assert (limit.concurrency, msgspec.json.decode(limit.definition)["concurrency"]) == (5, 8)
    (change,) = await verbs(store, app).overrides()
    assert (change.path, change.value, change.changed_by, change.changed_reason) == (
        *("limits.tenant.concurrency", 5, "anna", "slow supplier"),
    )
    assert await verbs(store, app).reset("limits.tenant.concurrency")
    assert [limit.concurrency for limit in await store.list_limits()] == [8]
    assert not await verbs(store, app).reset("limits.tenant.concurrency")


async def test_budgets_and_queues_are_changed_alike(store: Store) -> None:
    app = program(
        task={"budget": "ai"},
        budgets=[Budget(name="ai", amount="$5")],
        queues=[Queue("default", workers=2, max_workers=4)],
    )
    await started(store, app)
    operator = verbs(store, app)
    await operator.set("budgets.ai.amount", "$7.50")
    await operator.set("queues.default.workers", 6)
    await operator.set("queues.default.sla", "90s")
    _, (budget,) = await store.read_budgets()
    assert budget.ceiling == 7_500_000
    held = msgspec.json.decode((await store.list_queue_policies())["default"])
    assert (held["workers"], held["max_workers"], held["sla_ms"]) == (6, 6, 90_000)


async def test_a_setting_is_changed_and_reset_by_the_path_that_lists_show(store: Store) -> None:
    app = program(queues=[Queue("mail.eu", workers=2, max_workers=4)])
    await started(store, app)
    operator = verbs(store, app)
    made = await operator.set("queues.mail.eu.max_workers", 9)
    assert (made.path, made.value, made.default, made.origin) == ("queues.mail.eu.workers.max", 9, None, "override")
    assert await operator.overrides() == [made]
    assert made in (await operator.list()).settings
    assert (await operator.set(made.path, 7)).value == 7
    assert await operator.reset(made.path)
    assert await operator.overrides() == []


async def test_a_service_is_changed_by_its_path_too(store: Store) -> None:
    app = program()
    await verbs(store, app).set("services.promotion.interval", "2s")
    (promotion,) = [row for row in await LocalServices(store, app.config).list() if row.name == "promotion"]
    assert (promotion.interval_ms, promotion.changed) == (2_000, ["interval"])


@pytest.mark.parametrize(
    "path, value, words",
    [
        ("limits.tenent.concurrency", 5, "did you mean 'tenant'"),
        ("limits.tenant.concurrency", -1, "concurrency: expected"),
        ("limits.tenant.kinds", ["x"], "these can be changed at run time"),
        ("limit.tenant.concurrency", 5, "expected one like limits.tenant.concurrency"),
        ("queues.default.sla", "soon", "sla: expected"),
        ("services.promoet.interval", "2s", "expected one of"),
    ],
)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(
    store: Store, path: str, value: Any, words: str
) -> None:
    app = program(task={"limits": "tenant"}, limits=[TENANT], queues=[Queue("default")])
    await started(store, app)
    with pytest.raises(InvalidValue, match=words):
        await verbs(store, app).set(path, value)
    assert await verbs(store, app).overrides() == []


async def test_a_change_that_fits_no_more_is_left_out(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    app = program(task={"limits": "tenant"}, limits=[Limit(name="tenant", concurrency=3, throttle="5/s")])
    await started(store, app)
    await verbs(store, app).set("limits.tenant.concurrency", None)
    await started(store, program(task={"limits": "tenant"}, limits=[Limit(name="tenant", concurrency=4)]))
    assert [limit.concurrency for limit in await store.list_limits()] == [4]  # without it nothing would be bounded
    assert "fits it no more" in caplog.text


async def test_a_change_that_nobody_finished_holds_with_the_next_look(store: Store) -> None:
    app = program(task={"limits": "tenant"}, limits=[TENANT])
    await started(store, app)
    await store.set_override("limits.tenant.concurrency", "5", actor=None, reason=None)  # and then its process died
    await settle(store)
    assert [limit.concurrency for limit in await store.list_limits()] == [5]


# ---- kinds that move -----------------------------------------------------------------------------------------------


async def test_waiting_jobs_follow_their_kind_to_its_queue(store: Store, clock: Clock) -> None:
    await started(store, program())
    running = await read(store, await enqueue(store))
    await claim_one(store)
    first, second = await enqueue_many(store, 2)
    later = await enqueue(store, delay_ms=60_000)
    urgent = await enqueue(store, priority=1)
    other = await enqueue(store, kind="other")
    before = await read(store, first)
    assert await started(store, program(queue="low", queues=[Queue("low", priority=8)])) == ["low"]
    moved = [await read(store, job_id) for job_id in (first, second, later, urgent)]
    assert [job.queue for job in moved] == ["low"] * 4
    assert [job.priority for job in moved] == [8, 8, 8, 1]
    assert (moved[0].position, moved[2].run_at) == (before.position, clock.now + timedelta(minutes=1))
    assert ((await read(store, running.id)).queue, (await read(store, other)).queue) == ("default", "default")


async def test_what_old_programs_still_enqueue_moves_with_the_next_start(store: Store) -> None:
    await started(store, program())
    new = program(queue="low")
    await started(store, new)
    stray = await enqueue(store)
    assert await started(store, new) == ["low"]
    assert (await read(store, stray)).queue == "low"


async def test_a_kind_that_comes_back_is_left_where_it_is(store: Store) -> None:
    for queue in ("default", "low", "default"):
        await started(store, program(queue=queue))
    (kind,) = await store.list_kinds()
    assert (kind.queue, kind.former) == ("default", ("low",))
    job = await enqueue(store)
    await started(store, program())
    assert (await read(store, job)).queue == "default"


async def test_jobs_move_page_by_page(store: Store) -> None:
    ids = sorted(await enqueue_many(store, 3))
    move = Move(kind="work", source="default", queue="low", was=5, becomes=5)
    assert await store.move_kind(move, after=-1, limit=2) == (2, ids[1])
    assert await store.move_kind(move, after=ids[1], limit=2) == (1, ids[2])
    assert await store.move_kind(move, after=ids[2], limit=2) == (0, None)
    assert [(await read(store, job_id)).state for job_id in ids] == [JobState.QUEUED] * 3


async def test_configuration_lies_over_code(store: Store) -> None:
    app = program(
        queue="high",
        task={"max_attempts": 2},
        kinds=[Kind(name="work", queue="low", limits="tenant", note="moved", timeout=None)],
        limits=[TENANT],
    )
    await started(store, app)
    (kind,) = await store.list_kinds()
    told = msgspec.json.decode(kind.definition)
    assert (kind.queue, told["limits"], told["note"], told["max_attempts"]) == ("low", ["tenant"], "moved", 2)
    assert told["timeout_ms"] is None


# ---- who was started with what -------------------------------------------------------------------------------------


async def test_a_worker_is_noted_with_what_it_was_started_with(store: Store) -> None:
    app = program(limits=[TENANT])
    worker = await register(store)
    await store.note_policies(worker, read_definitions(app.config, app.tasks, ()).fingerprints())
    noted = msgspec.json.decode((await store.worker_policies())[worker])
    assert set(noted) == {"limits.tenant", "kinds.work"}


async def _flags(store: Store, flag: str) -> set[str]:
    found = await raw.column(store, f"SELECT name FROM holdfast.queues WHERE {flag}")
    return set(found)
