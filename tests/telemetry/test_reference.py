"""The page of metrics names all of them as they are, and the manifests scale by one that is exported."""

import re
from pathlib import Path

from holdfast.deploy.autoscale import METRIC
from holdfast.telemetry.meter import BOUNDS_S
from holdfast.telemetry.metrics import METRICS

ROOT = Path(__file__).parents[2]
NONE = "\u2013"


def test_every_metric_has_its_row() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert rows == {
        metric.name: f"{metric.sort} | {', '.join(f'`{label}`' for label in metric.labels) or NONE} | {metric.text}"
        for metric in METRICS.values()
    }


def test_buckets_are_where_slas_usually_are() -> None:
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))
    assert {30.0, 120.0, 300.0, 1_800.0} <= set(BOUNDS_S), "those of the seed's queues"


def test_manifests_scale_by_a_metric_that_is_exported() -> None:
    assert METRICS[METRIC].labels == ("queue",)
    assert METRIC in (ROOT / "deploy" / "kubernetes" / "autoscaler.yaml").read_text()
