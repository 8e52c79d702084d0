"""Spans: one where a job is enqueued, one around each run, and a link from the second to the first."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from holdfast import Fatal, Holdfast, Retry, Snooze
from holdfast.telemetry import tracing
from holdfast.telemetry.settings import TelemetrySettings


class Traced:
    """A program with a tracer provider."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traced]:
    found = Traced()
    # A provider can be set only once in a process, and other tests want none.
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: found.provider)
    yield found
    tracing._last.clear()


def make_app(**settings: Any) -> Holdfast:
    app = Holdfast("sqlite://", **settings)

    @app.task(queue="bulk", max_attempts=2)
    async def work(how: str) -> None:
        with trace.get_tracer_provider().get_tracer("handler").start_as_current_span("inside"):
            await asyncio.sleep(0)
        if how == "retry":
            raise Retry(0, reason="again")
        if how == "fatal":
            raise Fatal(how)
        if how == "snooze":
            raise Snooze(3600)

    @app.task
    def in_thread() -> None:
        with trace.get_tracer_provider().get_tracer("handler").start_as_current_span("inside"):
            pass

    return app


def events_of(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


async def run(app: Holdfast, *hows: str) -> list[int]:
    work = app.tasks.get("work")
    async with app:
        handles = [await app.enqueue(work.call(how=how)) for how in hows]
        await app.run_worker(until="empty")
    return [handle.number or 0 for handle in handles]


async def test_a_job_has_the_attributes_of_the_seed_and_of_messaging(traced: Traced) -> None:
    (job_id,) = await run(make_app(), "return")
    (enqueued,), (executed,) = traced.named("job.enqueue"), traced.named("job.execute")
    public = dict(executed.attributes or {})["holdfast.public_id"]
    assert dict(executed.attributes or {}) == {
        "job.id": job_id,
        "job.type": "work",
        "job.queue": "bulk",
        "job.attempt": 1,
        "job.handler": f"{__name__}.make_app.<locals>.work",
        "holdfast.public_id": public,
        "messaging.system": "holdfast",
        "messaging.destination.name": "bulk",
        "messaging.operation.type": "process",
        "messaging.operation.name": "execute",
        "messaging.message.id": public,
    }
    assert executed.kind is SpanKind.CONSUMER
    assert events_of(executed) == ["job.completed"]
    assert enqueued.kind is SpanKind.PRODUCER
    assert dict(enqueued.attributes or {})["job.id"] == job_id
    assert dict(enqueued.attributes or {})["messaging.operation.name"] == "enqueue"
    assert events_of(enqueued) == ["job.enqueued"]


async def test_a_run_is_linked_to_its_enqueue_and_is_a_trace_of_its_own(traced: Traced) -> None:
    with traced.provider.get_tracer("web").start_as_current_span("request") as request:
        await run(make_app(), "return")
    (enqueued,), (executed,), (inside,) = (traced.named(name) for name in ("job.enqueue", "job.execute", "inside"))
    assert enqueued.context is not None
    assert executed.context is not None
    assert enqueued.parent is not None
    assert enqueued.parent.span_id == request.get_span_context().span_id
    (link,) = executed.links
    assert (link.context.trace_id, link.context.span_id) == (enqueued.context.trace_id, enqueued.context.span_id)
    assert executed.parent is None
    assert executed.context.trace_id != enqueued.context.trace_id
    assert inside.parent is not None
    assert inside.parent.span_id == executed.context.span_id


async def test_every_run_tells_how_it_ended(traced: Traced) -> None:
    await run(make_app(), "retry", "fatal", "snooze")
    found = {
        (dict(span.attributes or {})["job.id"], dict(span.attributes or {})["job.attempt"]): events_of(span)
        for span in traced.named("job.execute")
    }
    assert sorted(found.values()) == [
        ["job.failed", "job.exhausted"],
        ["job.failed", "job.exhausted"],
        ["job.failed", "job.retry_scheduled"],
        ["job.interrupted"],
    ]
    failed = [span for span in traced.named("job.execute") if "job.failed" in events_of(span)]
    assert all(span.status.status_code is StatusCode.ERROR for span in failed)
    (retried,) = (span for span in failed if "job.retry_scheduled" in events_of(span))
    assert dict(retried.events[1].attributes or {}) == {"delay_s": 0.0}
    assert len({link.context.span_id for span in failed for link in span.links}) == 2, "a retry is linked as well"


async def test_a_worker_that_leaves_says_that_a_run_was_interrupted(traced: Traced) -> None:
    app = Holdfast("sqlite://")
    begun = asyncio.Event()

    @app.task
    async def sit() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with app:
        await sit.enqueue()
        working = asyncio.create_task(app.run_worker())
        await begun.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    (executed,) = traced.named("job.execute")
    assert events_of(executed) == ["job.interrupted"]
    assert executed.status.status_code is StatusCode.UNSET


async def test_handlers_in_threads_are_inside_their_run(traced: Traced) -> None:
    app = make_app()
    async with app:
        await app.enqueue(app.tasks.get("in_thread").call())
        await app.run_worker(until="empty")
    (executed,), (inside,) = traced.named("job.execute"), traced.named("inside")
    assert executed.context is not None
    assert inside.parent is not None
    assert inside.parent.span_id == executed.context.span_id


async def test_many_at_once_are_one_span(traced: Traced) -> None:
    app = make_app()
    work = app.tasks.get("work")
    async with app:
        await app.enqueue_many(work.call(how="return") for _ in range(3))
        await app.run_worker(until="empty")
    (enqueued,) = traced.named("job.enqueue")
    assert dict(enqueued.attributes or {})["messaging.batch.message_count"] == 3
    assert enqueued.context is not None
    assert {span.links[0].context.span_id for span in traced.named("job.execute")} == {enqueued.context.span_id}


async def test_what_another_program_wrote_as_a_link_is_read_with_care(traced: Traced) -> None:
    assert tracing._remote({"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"}) is None
    for wrong in (7, "", "00-xyz", "01-" + "1" * 32 + "-" + "1" * 16 + "-01", None):
        assert tracing._remote({"traceparent": wrong}) is None
    remote = tracing._remote({"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "a=1,,=;;"})
    assert remote is not None
    assert remote.is_remote


async def test_they_are_off_by_a_setting_and_without_a_provider(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(make_app(telemetry=TelemetrySettings(traces=False)), "return")
    monkeypatch.undo()
    assert tracing.tracer() is None
    app = make_app()
    async with app:
        handle = await app.enqueue(app.tasks.get("in_thread").call())
        assert (await handle.get()).trace is None
        await app.run_worker(until="empty")
    assert traced.named("job.enqueue") == []
    assert traced.named("job.execute") == []


async def test_spans_of_another_process_are_inside_the_run_it_was_sent_for(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("test")
    with tracer.start_as_current_span("run") as run_span:
        parent = tracing.carried()
    with tracing.beneath(parent), tracer.start_as_current_span("inside"):
        pass
    (inside,) = traced.named("inside")
    assert inside.parent is not None
    assert inside.parent.span_id == run_span.get_span_context().span_id
    with tracing.beneath({}), tracer.start_as_current_span("alone"):
        pass
    assert traced.named("alone")[0].parent is None
