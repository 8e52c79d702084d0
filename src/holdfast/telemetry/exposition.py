"""Sums and gauges in the text form that Prometheus reads, written by its own library."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigError
from holdfast.telemetry.meter import BOUNDS_S, Gauge, Meter, Timings
from holdfast.telemetry.metrics import Metric, metric_of

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def require_metrics() -> Any:
    """Import the library that writes metrics, or say how to get it."""
    try:
        import prometheus_client  # noqa: PLC0415 - an extra, wanted only where metrics are shown
    except ImportError as error:
        message = "metrics: expected the package prometheus-client, which is not installed; run"
        message += " pip install 'holdfast-jobs[metrics]'"
        raise ConfigError(message) from error
    return prometheus_client


def text_of(meter: Meter, gauges: Iterable[Gauge]) -> str:
    """Write everything."""
    written: bytes = require_metrics().generate_latest(_Families(meter, gauges))
    return written.decode()


class _Families:
    """What the library asks: one family after the other."""

    def __init__(self, meter: Meter, gauges: Iterable[Gauge]) -> None:
        self._meter = meter
        self._gauges = gauges

    def collect(self) -> Iterator["Family"]:
        """Give every family with its samples."""
        from prometheus_client.metrics_core import (  # noqa: PLC0415 - see `require_metrics`
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        sorts = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
        for metric, samples in sorted(self._samples().items()):
            family = sorts[metric.sort](metric.name, metric.text, labels=metric.labels)
            for labels, sample in sorted(samples.items()):
                if isinstance(sample, Timings):
                    family.add_metric(labels, buckets=_cumulated(sample.buckets), sum_value=sample.total_s)
                else:
                    family.add_metric(labels, sample)
            yield family

    def _samples(self) -> dict[Metric, dict[tuple[str, ...], Any]]:
        found: dict[Metric, dict[tuple[str, ...], Any]] = defaultdict(dict)
        for (name, *labels), sample in (*self._meter.counters.items(), *self._meter.timings.items(), *self._gauges):
            found[metric_of(name)][tuple(labels)] = sample
        return found


def _cumulated(buckets: list[int]) -> list[tuple[str, float]]:
    reached, found = 0, []
    for bound, times in zip((*map(str, BOUNDS_S), "+Inf"), buckets, strict=True):
        reached += times
        found.append((bound, float(reached)))
    return found
