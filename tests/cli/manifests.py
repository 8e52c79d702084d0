"""The example whose objects lie in deploy/kubernetes; run this file to write them anew."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.deploy.kubernetes import manifests, text
from holdfast.deploy.pods import Manifest
from holdfast.deploy.values import Facts, read_file, read_values
from holdfast.schedules import Schedule

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
VALUES = FOLDER / "values.yaml"

FACTS = Facts("shop.tasks:app", "holdfast", ("high", "default", "maintenance"), concurrency=10, grace_s=30)
SCHEDULES = (
    Schedule(name="lifecycle_eval", kind="lifecycle_eval", cron="0 3 * * *"),
    Schedule(name="git_ref_audit", kind="git_ref_audit", cron="0 4 * * *", args={"limit": 100}),
    Schedule(name="purgatory_cleanup", kind="purgatory_cleanup", cron="0 5 * * *", tz="Europe/Berlin"),
    Schedule(name="credential_reencrypt", kind="credential_reencrypt", cron="0 2 * * 7"),
)
CHOSEN: dict[str, dict[str, Any]] = {
    "plain.yaml": {"image": "registry.example.org/shop:1.0"},
    "autoscaler.yaml": {"image": "registry.example.org/shop:1.0", "autoscale": "hpa", "migrate": False},
    "cronjobs.yaml": read_file(VALUES.read_text(encoding="utf-8"), "values.yaml"),
}


def objects(defined: Sequence[Any] = SCHEDULES, facts: Facts = FACTS, /, **chosen: Any) -> list[Manifest]:
    """Make the objects of some choice."""
    return manifests(read_values({"image": "shop:1.0", **chosen}, "the test"), facts, defined)


if __name__ == "__main__":
    for file, chosen in CHOSEN.items():
        (FOLDER / file).write_text(text(objects(**chosen)), encoding="utf-8")
