"""Spans of OpenTelemetry: one where a job is enqueued, one around each run, linked by what the job carries.

Nothing is imported here: who has configured a tracer provider has imported OpenTelemetry before, and for everybody else
there is nothing to do. The run is linked to the enqueue and no child of it: it may be hours away, and happen twice.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from holdfast import public_id
from holdfast.job import JobRow
from holdfast.release import RELEASE
from holdfast.telemetry.redaction import hide
from holdfast.transitions import Transition, Verb

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanContext, Tracer

_MODULE = "opentelemetry.trace"
_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_LONGEST_STATE = 512
SYSTEM = "holdfast"

_last: list[tuple[Any, "Tracer"]] = []  # of the provider seen last: making one takes longer than using it


class Asked(Protocol):
    """One job that is to be enqueued."""

    @property
    def kind(self) -> str:
        """What runs."""

    @property
    def queue(self) -> str:
        """Where it waits."""


def tracer() -> "Tracer | None":
    """Find the tracer of this program; None when nobody has configured one."""
    trace = sys.modules.get(_MODULE)
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    if not _last or _last[0][0] is not provider:
        _last[:] = [(provider, provider.get_tracer("holdfast", RELEASE))]
    return _last[0][1]


# ---- enqueue -------------------------------------------------------------------------------------------------------


class Producing:
    """The span of an enqueue."""

    def __init__(self, span: "Span") -> None:
        self._span = span

    def stored(self, enqueued: Sequence[int | None]) -> None:
        """Tell which jobs they are."""
        ids = [job_id for job_id in enqueued if job_id is not None]
        if len(enqueued) == 1 and ids:
            self._span.set_attributes(_ids(ids[0]))
        self._span.add_event("job.enqueued", {"jobs": len(enqueued)})


def producing(calls: Sequence[Asked], *, is_wanted: bool) -> AbstractContextManager[Producing | None]:
    """Make a span around the enqueue of jobs; it is the current one while they are made."""
    if not is_wanted or not calls or (found := tracer()) is None:
        return _NOTHING
    return _producing(found, calls)


@contextmanager
def _producing(found: "Tracer", calls: Sequence[Asked]) -> Iterator[Producing]:
    trace = sys.modules[_MODULE]
    kinds, queues = {call.kind for call in calls}, {call.queue for call in calls}
    attributes: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
    }
    if len(kinds) == 1:
        attributes["job.type"] = next(iter(kinds))
    if len(queues) == 1:
        attributes["job.queue"] = attributes["messaging.destination.name"] = next(iter(queues))
    if len(calls) > 1:
        attributes["messaging.batch.message_count"] = len(calls)
    with found.start_as_current_span("job.enqueue", kind=trace.SpanKind.PRODUCER, attributes=attributes) as span:
        yield Producing(span)


_NOTHING: AbstractContextManager[None] = nullcontext()


def carried(*, is_wanted: bool = True) -> dict[str, str]:
    """What a job that is enqueued now carries to its run: the span it is enqueued in, as W3C writes it."""
    if not is_wanted or tracer() is None:
        return {}
    context: SpanContext = sys.modules[_MODULE].get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    found = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}
    state = context.trace_state.to_header()
    return found | {"tracestate": state} if 0 < len(state) <= _LONGEST_STATE else found


# ---- run -----------------------------------------------------------------------------------------------------------


class Consuming:
    """The span of one run."""

    def __init__(self, span: "Span") -> None:
        self._span = span

    def ended(self, job: JobRow, transition: Transition) -> None:
        """Tell how the run ended, and what follows."""
        trace, verb, why = sys.modules[_MODULE], transition.verb, transition.failure
        if verb in (Verb.COMPLETE, Verb.CANCEL):
            self._span.add_event("job.completed" if verb is Verb.COMPLETE else "job.cancelled")
        if verb in (Verb.INTERRUPT, Verb.SNOOZE, Verb.THROTTLE):
            self._span.add_event("job.interrupted", {"delay_s": transition.delay_ms / 1_000})
        if why is None or verb not in (Verb.RETRY, Verb.FAIL, Verb.CRASH):
            return
        told = {"exception.type": why.error_class, "exception.message": hide(why.message)}
        self._span.add_event("job.failed", told)
        self._span.set_status(trace.Status(trace.StatusCode.ERROR, f"{why.error_class}: {hide(why.message)}"))
        if verb is Verb.RETRY:
            self._span.add_event("job.retry_scheduled", {"delay_s": transition.delay_ms / 1_000})
        elif verb is Verb.FAIL:
            self._span.add_event("job.exhausted", {"attempts": job.attempt, "max_attempts": job.max_attempts})


def consuming(job: JobRow, handler: str, *, is_wanted: bool) -> AbstractContextManager[Consuming | None]:
    """Make a span around the run of a job; it is the current one for everything that the handler calls."""
    if not is_wanted or (found := tracer()) is None:
        return _NOTHING
    return _consuming(found, job, handler)


@contextmanager
def _consuming(found: "Tracer", job: JobRow, handler: str) -> Iterator[Consuming]:
    trace = sys.modules[_MODULE]
    attributes: dict[str, Any] = _ids(job.id) | {
        "job.type": job.kind,
        "job.queue": job.queue,
        "job.attempt": job.attempt,
        "job.handler": handler,
        "messaging.system": SYSTEM,
        "messaging.destination.name": job.queue,
        "messaging.operation.type": "process",
        "messaging.operation.name": "execute",
    }
    span = found.start_span(
        "job.execute",
        context=sys.modules["opentelemetry.context"].Context(),  # a trace of its own, whatever the worker runs in
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
        links=_links(job.extra),
        record_exception=False,
        set_status_on_exception=False,
    )
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        yield Consuming(span)


def _links(extra: Mapping[str, Any]) -> "list[Link]":
    remote = _remote(extra)
    return [] if remote is None else [sys.modules[_MODULE].Link(remote)]


def _remote(extra: Mapping[str, Any]) -> "SpanContext | None":
    """Read the span that a job was enqueued in; whoever enqueued it may have written anything there."""
    parent, state = extra.get("traceparent"), extra.get("tracestate")
    found = _PARENT.fullmatch(parent) if isinstance(parent, str) else None
    if found is None:
        return None
    trace = sys.modules[_MODULE]
    states = trace.TraceState.from_header([state]) if isinstance(state, str) else None
    flags = trace.TraceFlags(int(found[3], 16))
    remote: SpanContext = trace.SpanContext(int(found[1], 16), int(found[2], 16), True, flags, states)  # noqa: FBT003 - is_remote
    return remote if remote.is_valid else None


@contextmanager
def beneath(parent: Mapping[str, str]) -> Iterator[None]:
    """Let spans of this process be children of a span in another one, while the block runs."""
    if not parent or tracer() is None or (remote := _remote(parent)) is None:
        yield
        return
    trace = sys.modules[_MODULE]
    with trace.use_span(trace.NonRecordingSpan(remote)):
        yield


def _ids(job_id: int) -> dict[str, Any]:
    name = public_id.encode(job_id)
    return {"job.id": job_id, "holdfast.public_id": name, "messaging.message.id": name}
