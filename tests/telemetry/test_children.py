"""What a child process tells its supervisor of its counts, and that telling never stops its jobs."""

import contextlib
import socket
from typing import Any, cast

import msgspec

from holdfast.telemetry.meter import Gauge, Meter
from holdfast.telemetry.metrics import RETRIES
from holdfast.worker import child, orders
from holdfast.worker.child import Child
from holdfast.worker.orders import Counted
from holdfast.worker.worker import Worker

SERIES = (RETRIES, "a", "q")


class Busy:
    """A worker as far as its gauges go."""

    def gauges(self) -> list[Gauge]:
        return [(("holdfast_slots",), 4.0)]


def telling(end: socket.socket) -> tuple[Child, Meter]:
    """Make as much of a child as tells its counts."""
    made = Child.__new__(Child)
    made._end, made._meter, made._gauges = end, Meter(), []
    return made, made._meter


def test_counts_are_told_once_and_the_last_before_it_leaves() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as lines:
        made, meter = telling(theirs)
        meter.count(SERIES)
        made._tell_counts(cast("Worker", Busy()))
        made._tell_counts(cast("Worker", Busy()))
        meter.count(SERIES, 2)
        made._tell_counts(cast("Worker", Busy()), at_last=True)
        theirs.close()
        told = [cast("Counted", orders.read_answer(line)) for line in lines]
    assert [found.counts.counters for found in told] == [[(SERIES, 1.0)], [(SERIES, 2.0)]]
    assert told[0].gauges == [(("holdfast_slots",), 4.0)]


def test_a_supervisor_that_stands_still_stops_no_child() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(2)  # or the test would wait for ever where the child would
        made, meter = telling(theirs)
        for _ in range(10_000):
            meter.count(SERIES)
            made._tell_counts(cast("Worker", Busy()))
        assert not meter.is_empty, "what could not be told is kept"
        assert not child._can_send(theirs)
        told = _read(ours)
    counted = sum(by for found in told for _, by in found.counts.counters)
    assert counted + meter.counters[SERIES] == 10_000


def _read(end: socket.socket) -> list[Any]:
    end.setblocking(False)
    read = b""
    with contextlib.suppress(BlockingIOError):  # then all of it is read
        while True:
            read += end.recv(1_000_000)
    return [msgspec.json.decode(line, type=Counted) for line in read.splitlines()]
