"""How many workers a queue has while that may change, and the sentence that says why."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.stores.limits import LimitRow
from holdfast.stores.sla import QueuePolicy, SlaRow, TuningRow
from holdfast.worker.processors import Processors
from holdfast.worker.tuning import Gear, Tuner

START = datetime(2026, 1, 1, tzinfo=UTC)


def row(second: int, **changes: Any) -> SlaRow:
    """What a look has found so many seconds after the start."""
    fields: dict[str, Any] = {
        "queue": "q",
        "sla_ms": 60_000,
        "p95_ms": None,
        "starts": 0,
        "oldest_ms": None,
        "waiting": 0,
        "looked_at": START + timedelta(seconds=second),
        "breached_at": None,
        "ended_at": None,
        "told_at": None,
    }
    return SlaRow(**(fields | changes))


class Fixed(Processors):
    """Processors of which a test says how busy they are."""

    share = 0.4

    def busy(self) -> float:
        """What the test says."""
        return self.share


class Known:
    """A store that knows what a test says."""

    def __init__(self, *policies: QueuePolicy) -> None:
        self.policies = list(policies)
        self.rows: list[SlaRow] = []
        self.limits: list[LimitRow] = []
        self.said: list[Sequence[TuningRow]] = []

    async def queue_policies(self) -> list[QueuePolicy]:
        """What is published."""
        return self.policies

    async def list_limits(self) -> list[LimitRow]:
        """What limits there are."""
        return self.limits

    async def list_waits(self) -> list[SlaRow]:
        """What was found."""
        return self.rows

    async def report_tunings(self, instance: str, tunings: Sequence[TuningRow]) -> None:
        """Remember what was said."""
        assert instance == "me"
        self.said.append(tunings)


def tuner(store: Known, applied: list[dict[str, int]], **changes: Any) -> Tuner:
    """A tuner of an instance with 40 slots."""
    fields: dict[str, Any] = {"queues": ["q"], "bounds": {}, "total": 40, "apply": applied.append}
    return Tuner(store, "me", processors=Fixed(), **(fields | changes))


def published(**changes: Any) -> QueuePolicy:
    """A queue between 2 and 8 workers."""
    fields: dict[str, Any] = {"queue": "q", "is_published": True, "sla_ms": 60_000, "workers": 2, "max_workers": 8}
    return QueuePolicy(**(fields | changes))


def test_a_burst_takes_it_to_the_maximum_within_a_minute_and_rest_takes_it_back_within_ten() -> None:
    gear = Gear(2, 8)
    grown = []
    for second in range(10, 70, 10):
        gear.step(row(second, oldest_ms=31_000 + second), busy=0.4)
        grown.append(gear.workers)
    assert grown == [3, 4, 5, 7, 8, 8]
    assert gear.reason.startswith("8, its maximum: jobs waited for 31.1 s, which is more than half of the SLA of 60 s")
    shrunk = []
    for second in range(70, 670, 10):
        gear.step(row(second, p95_ms=31_000), busy=0.4)  # that of the last minutes says nothing once nobody waits
        shrunk.append(gear.workers)
    assert shrunk[:11] == [8] * 11, "two minutes are waited for"
    assert shrunk[11:19] == [8, 7, 6, 5, 4, 3, 2, 2]
    assert gear.reason == "2, its minimum, down from 3: no job has waited for 2 minutes"


def test_it_grows_by_a_quarter_and_shrinks_by_a_tenth() -> None:
    gear = Gear(20, 100)
    gear.step(row(10, p95_ms=40_000, starts=30, oldest_ms=5), busy=0.2)
    assert gear.workers == 25
    assert gear.reason.startswith("25, up from 20: jobs waited for 40.0 s")
    assert "the processors are 20% busy" in gear.reason
    for second in range(20, 160, 10):
        gear.step(row(second), busy=0.2)
    assert gear.workers == 20  # 25, 22 and then its minimum


def test_busy_processors_and_short_waits_let_it_stay() -> None:
    gear = Gear(2, 8)
    gear.step(row(10, oldest_ms=29_000), busy=0.1)
    assert (gear.workers, gear.reason) == (2, "2, its minimum: nothing has waited for long")
    gear.step(row(20, oldest_ms=31_000), busy=0.85)
    assert gear.workers == 2
    assert gear.reason.endswith("but the processors are 85% busy")


def test_a_step_takes_ten_seconds_by_the_clock_of_the_store() -> None:
    gear = Gear(2, 8)
    for second in (10, 12, 18, 20):
        gear.step(row(second, oldest_ms=31_000), busy=0.1)
    assert gear.workers == 4


async def test_what_is_published_holds_and_each_number_is_told_once() -> None:
    store = Known(published())
    applied: list[dict[str, int]] = []
    tuned = tuner(store, applied, bounds={"q": 5, "other": 3})
    assert tuned.bounds == {"q": 5, "other": 3}
    await tuned.look()
    assert applied == [{"q": 2, "other": 3}]
    store.rows = [row(10, oldest_ms=50_000)]
    for _ in range(3):
        await tuned.look()
    assert applied[1:] == [{"q": 3, "other": 3}]
    assert [[(tuning.workers, tuning.lowest, tuning.highest) for tuning in said] for said in store.said] == [
        [(2, 2, 8)],
        [(3, 2, 8)],
    ]


async def test_workers_that_somebody_changes_take_effect_at_the_next_look() -> None:
    store = Known(published(max_workers=None))
    applied: list[dict[str, int]] = []
    tuned = tuner(store, applied)
    await tuned.look()
    store.policies = [published(workers=7, max_workers=None)]
    await tuned.look()
    store.policies = [published(workers=None, max_workers=None)]
    await tuned.look()
    assert applied == [{"q": 2}, {"q": 7}, {}]
    assert store.said == [], "a fixed number needs no reason"


async def test_changed_bounds_hold_at_once_and_the_slots_of_the_instance_bound_both() -> None:
    store = Known(published(workers=6, max_workers=60))
    applied: list[dict[str, int]] = []
    tuned = tuner(store, applied)
    await tuned.look()
    store.policies = [published(workers=10, max_workers=60)]
    await tuned.look()
    assert applied == [{"q": 6}, {"q": 10}]
    assert store.said[-1][0].reason == "10: the bounds were set to 10 and 40"


@pytest.mark.parametrize(
    "before, after, busy",
    [("cpu 10 0 10 80 0 0 0", "cpu 20 0 20 160 0 0 0", 0.2), ("cpu 0 0 0 0 0", "cpu 90 0 5 3 2", 0.95)],
)
def test_the_processors_are_as_busy_as_the_system_has_counted(
    tmp_path: Path, before: str, after: str, busy: float
) -> None:
    stat = tmp_path / "stat"
    stat.write_text(f"{before}\ncpu0 1 2 3\n")
    processors = Processors(stat)
    stat.write_text(f"{after}\n")
    assert processors.busy() == pytest.approx(busy)
    assert processors.busy() == 0.0, "nothing was counted since"


def test_without_a_count_the_load_stands_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.0, 5.0, 5.0))
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert Processors(tmp_path / "none").busy() == 0.25


async def test_a_limit_per_instance_bounds_a_queue_whatever_else_is_published() -> None:
    applied: list[dict[str, int]] = []
    store = Known(QueuePolicy(queue="q", is_published=True, workers=8))
    store.limits = [LimitRow(name="few", queue="q", concurrency=3, scope="instance"), LimitRow(name="all", queue="q")]
    await tuner(store, applied).look()
    assert applied == [{"q": 3}]
