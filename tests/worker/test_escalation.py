"""Every way in which a job can end `failed` is told of, from the handler to the receiver."""

import asyncio
import sys
from collections.abc import AsyncIterator

import msgspec
import pytest

from holdfast import BudgetExceeded, ConfigError, Fatal, Holdfast, Queue, Service, failure
from holdfast import transitions as ends
from holdfast.job import JobState
from holdfast.policies.channels import Channel, Email, PagerDuty, Slack
from holdfast.policies.escalation import BusinessHours, Escalation
from holdfast.worker.orders import Wire, settings_of, wire_of
from tests.support import builders
from tests.support.notice_receiver import Receiver
from tests.support.staff import KEY, Staff
from tests.support.wait import PATIENCE_S, until
from tests.support.workers import MakeApp, drained, ended, working

OPS = Escalation(name="ops", channels=["pager"], fields=["how"], link="https://jobs.example.org/{id}")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().listening() as listening:
        yield listening


def told(make_app: MakeApp, receiver: Receiver) -> Holdfast:
    """An app whose queue `default` is escalated."""
    app = make_app(
        queues=[Queue("default", escalation="ops")],
        channels={"pager": PagerDuty(key=KEY, url=receiver.url("/v2/enqueue"))},
        escalations=[OPS],
        services={"escalations": Service(interval="20ms"), "notices": Service(interval="20ms")},
    )

    @app.task(max_attempts=1, max_crashes=1)
    async def fail(how: str) -> None:
        if how == "fatal":
            message = "not like this"
            raise Fatal(message)
        if how == "budget":
            message = "all spent"
            raise BudgetExceeded(message)
        message = "the disk is full"
        raise OSError(message)

    @app.task
    async def succeed() -> None: ...

    return app


async def test_every_failure_is_told(make_app: MakeApp, receiver: Receiver) -> None:
    async with told(make_app, receiver) as app:
        fail = app.tasks.get("fail")
        handles = [await app.enqueue(fail.call(how=how)) for how in ("exhausted", "fatal", "budget")]
        await app.enqueue(app.tasks.get("succeed").call())
        await drained(app)
        lost = await app.enqueue(fail.call(how="lost"))
        worker = await builders.register(app.store)
        job = await builders.claim_one(app.store, worker)
        gone = failure.from_text("WorkerLost", "killed")
        await app.store.release_worker(worker, [ends.crashed(job.id, job.claim, gone)])
        assert [(await handle.get()).state for handle in (*handles, lost)] == [JobState.FAILED] * 4
        staff = Staff(app.store, OPS, to=dict(app.config.channels))
        await staff.work()
        by_job = {body["payload"]["custom_details"]["job"]: body["payload"] for body in receiver.bodies}
        for handle, how, error in zip(
            (*handles, lost),
            ("exhausted", "fatal", "budget", "lost"),
            ("OSError: the disk is full", "Fatal: not like this", "BudgetExceeded: all spent", "WorkerLost: killed"),
            strict=True,
        ):
            payload = by_job.pop(handle.id)
            assert payload["custom_details"]["last error"].endswith(error)
            assert (payload["custom_details"]["how"], payload["source"]) == (how, "default")
            assert payload["custom_details"]["link"] == f"https://jobs.example.org/{handle.id}"
        assert by_job == {}


async def test_a_worker_tells_by_itself(make_sqlite_file: MakeApp, receiver: Receiver) -> None:
    async with told(make_sqlite_file, receiver) as app, working(app):
        handle = await app.enqueue(app.tasks.get("fail").call(how="exhausted"))
        await ended(handle)
        await until(lambda: len(receiver.requests) == 1, "the pager was told")
        (row,) = (await app.escalations.list(is_open=True)).escalations
        await app.escalations.ack(row.id, actor="ann", note="on it")
        await until(lambda: len(receiver.requests) == 2, "the pager heard of the answer")
        state = await app.escalations.get(row.id)
        assert (state.notices[0].event, state.notices[0].state) == ("trigger", "sent")
        assert (state.escalation.acked_by, state.escalation.note) == ("ann", "on it")


async def test_a_queue_whose_policy_is_not_defined_is_refused_at_start(make_sqlite_memory: MakeApp) -> None:
    async with make_sqlite_memory(queues=[Queue("default", escalation="opps")], escalations=[]) as app:
        with pytest.raises(ConfigError, match="escalation: expected a policy among none that are defined, got 'opps'"):
            await asyncio.wait_for(app.run_worker(until="empty"), PATIENCE_S)


async def test_a_channel_whose_package_is_missing_is_refused_at_start(
    make_sqlite_memory: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.webhooks.pinned", None)
    monkeypatch.delattr("holdfast.webhooks.pinned", raising=False)
    async with make_sqlite_memory(channels={"chat": Slack(url="http://127.0.0.1:9/x")}) as app:
        with pytest.raises(ConfigError, match=r'pip install "holdfast-jobs\[http\]"') as caught:
            await asyncio.wait_for(app.run_worker(until="empty"), PATIENCE_S)
    assert "9/x" not in str(caught.value)


def test_a_supervisor_gets_channels_and_policies_whole() -> None:
    policies = [
        Escalation(
            name="ops",
            channels=["chat", "mail"],
            respond_within="1h 30m",
            repeat=2,
            then="daily",
            business_hours=BusinessHours(from_="08:00", tz="Europe/Berlin", holidays=["2026-12-25"]),
            fields=["url"],
            link="https://jobs.example.org/{id}",
        ),
        Escalation(name="daily", channels=["mail"], digest_at="08:00", sources=["failed"]),
    ]
    channels: dict[str, Channel] = {
        "chat": Slack(url="https://hooks.example.org/x"),
        "mail": Email(to=["a@b.c"], sender="d@e.f", password="x"),
    }
    app = Holdfast("sqlite://", channels=channels, escalations=policies)
    line = msgspec.json.encode(wire_of(app.parts))
    got = settings_of(msgspec.json.decode(line, type=Wire))
    assert got.channels == app.config.channels
    for name, policy in app.config.escalations.items():
        read = got.escalations[name]
        assert (read.channels, read.respond_ms, read.then, read.most, read.sources, read.fields, read.link) == (
            policy.channels,
            policy.respond_ms,
            policy.then,
            policy.most,
            policy.sources,
            policy.fields,
            policy.link,
        )
        hours = policy.business_hours
        assert (read.business_hours and read.business_hours.hours) == (hours and hours.hours)
