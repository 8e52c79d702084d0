"""A store with something on every page: queues, schedules, failures, escalations, budgets, limits, workers."""

from datetime import timedelta
from typing import Any

from holdfast import Budget, Context, Escalation, Fatal, Holdfast, Limit, Queue, Retry
from holdfast.policies.budgets import Action
from holdfast.policies.channels import Slack
from holdfast.stores.alarms import Alarm
from holdfast.stores.values import WorkerProcess
from tests.support import raw
from tests.support.workers import MakeApp, drained

PLAIN = "plain words"
DEFERRING: tuple[tuple[float, Action], ...] = ((0.8, "alert"), (1.0, "defer"))


def furnished_app(make: MakeApp, said: str = PLAIN) -> Holdfast:
    """Make an app whose tasks say what is given."""
    app = make(
        queues=[
            Queue("high", sla="1m", colour="red", escalation="ops", description=said, workers=2, max_workers=9),
            Queue("theirs"),
        ],
        limits=[Limit(name="hosts", kinds=["shoot"], key="args.host", concurrency=2)],
        budgets=[Budget(name="ai", amount="$10", period="month", kinds=["shoot"], thresholds=DEFERRING)],
        channels={"chat": Slack(url="http://127.0.0.1:9/hook")},
        escalations=[
            Escalation(name="ops", channels=["chat"], respond_within="15m"),
            Escalation(name="daily", channels=["chat"], digest_at="08:00"),
        ],
    )

    @app.task(queue="high", budget="ai", estimate="$0.02")
    async def shoot(ctx: Context, host: str = "example.org") -> None:
        await ctx.spend("$8.50", note=said)

    @app.task(queue="high", max_attempts=1)
    async def sink(token: str = "") -> None:
        raise Fatal(said)

    @app.task(queue="high", max_attempts=5)
    async def stumble() -> None:
        raise Retry(timedelta(hours=1), said)

    @app.task(queue="theirs", max_attempts=1)
    async def foreign() -> None:
        message = "their secret business"
        raise Fatal(message)

    @app.schedule(cron="30 2 * * mon-fri", tz="Europe/Berlin")
    @app.task(queue="high")
    async def nightly() -> None: ...

    @app.schedule(every="5m")
    @app.task(queue="theirs")
    async def theirs_only() -> None: ...

    return app


async def furnish(app: Holdfast, said: str = PLAIN) -> None:
    """Let something of everything happen."""
    store = app.store
    tasks: dict[str, Any] = {task.name: task for task in app.tasks}
    for name in ("shoot", "sink", "stumble", "foreign"):
        await tasks[name].using(actor=said[:60]).enqueue()
    await drained(app)
    await app.queues.pause("high", actor=said[:60], reason=said)
    await app.schedules.run("nightly")
    alarm = Alarm(source="failed", title=said, policy="ops", queue="high", kind="sink", fingerprint="f")
    await store.define_escalations(["ops", "daily"])
    missing = Alarm(source="schedule", title="stock is missing", policy="daily", kind="nightly")
    await raw.raise_alarm(store, missing)
    await raw.raise_alarm(store, missing)
    await raw.raise_alarm(store, alarm)
    await raw.raise_alarm(store, Alarm(source="failed", title="theirs", policy="ops", queue="theirs", kind="foreign"))
    await store.fold_alarms({"ops": ("failed",), "daily": ("schedule",)}, 10)
    info = WorkerProcess(instance="inst-1", host=said[:100], pid=7, version=said[:20], queues=("high",), concurrency=4)
    await store.register_worker(info, 3_600_000)
    other = WorkerProcess(instance="inst-2", host="their-host", pid=8, queues=("theirs",), concurrency=1)
    theirs = await store.register_worker(other, 3_600_000)
    await store.renew_workers([theirs], 3_600_000, {theirs: 48_234_496})
    await store.disable_endpoint(f"https://hooks.example.org/{said}", said)
    await app.settings.set("queues.high.description", said, actor=said[:60], reason=said)
