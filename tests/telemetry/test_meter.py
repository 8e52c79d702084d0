"""Counting: sums are kept once, whoever counted them, and shown as Prometheus reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.telemetry import exposition
from holdfast.telemetry.exposition import text_of
from holdfast.telemetry.meter import BOUNDS_S, Meter, summed
from holdfast.telemetry.metrics import EXECUTION, LISTENER, RETRIES, RUNNING

SERIES = st.tuples(st.just(EXECUTION), st.sampled_from("ab"), st.just("q"), st.sampled_from(["completed", "failed"]))


@given(st.lists(st.lists(st.tuples(SERIES, st.floats(0, 10_000)), max_size=20), max_size=10))
def test_what_children_send_adds_up_to_what_they_counted(rounds: list[list[tuple[tuple[str, ...], float]]]) -> None:
    child, supervisor, alone = Meter(), Meter(), Meter()
    for durations in rounds:
        for series, seconds in durations:
            for meter in (child, alone):
                meter.time(series, seconds)
                meter.count((RETRIES, series[1], "q"))
        supervisor.add(child.take())
        assert child.is_empty
    assert supervisor.counters == alone.counters
    assert {key: found.buckets for key, found in supervisor.timings.items()} == {
        key: found.buckets for key, found in alone.timings.items()
    }
    for key, found in supervisor.timings.items():
        assert found.total_s == pytest.approx(alone.timings[key].total_s)


def test_one_message_is_bounded_and_the_rest_follows() -> None:
    child, supervisor = Meter(), Meter()
    for number in range(450):
        child.time((EXECUTION, f"kind{number}", "q", "completed"), 0.1)
        child.count((RETRIES, f"kind{number}", "q"))
    sent = 0
    while not child.is_empty:
        counts = child.take()
        assert len(counts.counters) <= 200
        assert len(counts.timings) <= 200
        supervisor.add(counts)
        sent += 1
    assert sent == 3
    assert len(supervisor.timings) == len(supervisor.counters) == 450


def test_a_duration_on_a_bound_belongs_to_the_bucket_below_it() -> None:
    meter = Meter()
    for bound in BOUNDS_S:
        meter.time((EXECUTION, "a", "q", "completed"), bound)
    meter.time((EXECUTION, "a", "q", "completed"), BOUNDS_S[-1] + 1)
    assert meter.timings[EXECUTION, "a", "q", "completed"].buckets == [1] * (len(BOUNDS_S) + 1)


def test_the_text_has_the_names_and_labels_of_the_seed() -> None:
    meter = Meter()
    meter.time((EXECUTION, "RSS", "default", "completed"), 0.2)
    meter.count((RETRIES, "RSS", "default"), 2)
    meter.count(("job_budget_consumed_dollars", "AI"), 0.004)
    lines = text_of(meter, [(("job_queue_backlog_total", "bulk"), 3.0), (("shots",), 2.0)]).splitlines()
    assert "# TYPE job_execution_duration_seconds histogram" in lines
    for bound, times in ((0.1, 0), (0.25, 1)):
        labels = f'job_type="RSS",le="{bound}",queue="default",status="completed"'
        assert f"job_execution_duration_seconds_bucket{{{labels}}} {times}.0" in lines
    assert 'job_execution_duration_seconds_count{job_type="RSS",queue="default",status="completed"} 1.0' in lines
    assert 'job_retry_total{job_type="RSS",queue="default"} 2.0' in lines
    assert 'job_budget_consumed_dollars_total{job_type="AI"} 0.004' in lines
    assert "# TYPE job_queue_backlog_total gauge" in lines
    assert 'job_queue_backlog_total{queue="bulk"} 3.0' in lines
    assert "shots 2.0" in lines


def test_gauges_of_processes_add_up_and_of_listeners_the_worst_counts() -> None:
    gauges = [((RUNNING, "q"), 1.0), ((LISTENER,), 1.0), ((RUNNING, "q"), 2.0), ((LISTENER,), 0.0)]
    assert dict(summed(gauges, frozenset({LISTENER}))) == {(RUNNING, "q"): 3.0, (LISTENER,): 0.0}


def test_without_the_extra_one_is_told_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from holdfast import ConfigError

    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigError, match=r"pip install 'holdfast-jobs\[metrics\]'"):
        exposition.require_metrics()
