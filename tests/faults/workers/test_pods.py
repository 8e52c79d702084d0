"""What the pods run, run as they run it: the commands that are printed, as processes."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Job, JobState
from holdfast.deploy.values import Facts
from holdfast.schedules import Schedule
from tests.cli.manifests import objects
from tests.cli.test_kubernetes import expanded, of_kind

pytestmark = [pytest.mark.real_time, pytest.mark.sample]

SOURCE = """
import os
from holdfast import Holdfast

app = Holdfast(os.environ["DATABASE_URL"], schema={schema!r}, deadline="5s", synchronous="normal")

@app.task
async def audit(text: str, limit: int = 1) -> None: ...
"""
ARGS = {"text": "$(JOB_NAME) costs $$5", "limit": 3}


class Cluster:
    """One node: it starts containers as they are described."""

    def __init__(self, folder: Path, url: str, schema: str) -> None:
        self.folder = folder
        self.facts = Facts("shop:app", schema, ("default",), concurrency=10, grace_s=30)
        self._secret = {"DATABASE_URL": url}
        (folder / "shop.py").write_text(SOURCE.format(schema=schema), encoding="utf-8")

    def run(self, container: Mapping[str, Any], job_name: str = "") -> subprocess.CompletedProcess[str]:
        """Run a container's command with its own environment."""
        values = {}
        for variable in container["env"]:
            source = variable.get("valueFrom", {})
            if "secretKeyRef" in source:
                values[variable["name"]] = self._secret[source["secretKeyRef"]["key"]]
            else:
                values[variable["name"]] = job_name if "fieldRef" in source else expanded(variable["value"], {})
        program, *more = (expanded(word, values) for word in [*container["command"], *container["args"]])
        assert program == "holdfast"
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *more],
            cwd=self.folder,
            env={**os.environ, **values},
            capture_output=True,
            text=True,
            check=False,
        )

    def enqueue(self, schedule: Schedule, job_name: str) -> subprocess.CompletedProcess[str]:
        """Run the pod of a CronJob's Job."""
        (cronjob,) = of_kind("CronJob", objects([schedule], self.facts, schedules="cronjob"))
        (container,) = cronjob["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        return self.run(container, job_name)

    def jobs(self) -> list[Job]:
        """List what is stored."""
        with Holdfast(self._secret["DATABASE_URL"], schema=self.facts.schema).blocking() as queue:
            return [queue.jobs.get(listed.id) for listed in queue.jobs.iterate()]


@pytest.fixture(params=["sqlite", "postgres"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, dsn: str, schema: str) -> Cluster:
    """Give a node whose init container has run, with each store."""
    made = Cluster(tmp_path, dsn if request.param == "postgres" else f"sqlite:///{tmp_path}/jobs.db", schema)
    (worker, *_) = of_kind("Deployment", objects([], made.facts), "worker")
    (migrate,) = worker["spec"]["template"]["spec"]["initContainers"]
    done = made.run(migrate)
    assert done.returncode == 0, done.stderr
    return made


def at_three(**more: Any) -> Schedule:
    return Schedule(name="nightly", kind="audit", cron="0 3 * * *", args=ARGS, **more)


def test_a_pod_that_is_started_again_enqueues_once(cluster: Cluster) -> None:
    first, again = (cluster.enqueue(at_three(overlap="queue"), "holdfast-nightly-29712345") for _ in range(2))
    assert (first.returncode, again.returncode) == (0, 0), (first.stderr, again.stderr)
    assert first.stdout == again.stdout
    assert "existing" in again.stderr
    (job,) = cluster.jobs()
    assert (job.kind, job.state) == ("audit", JobState.QUEUED)
    later = cluster.enqueue(at_three(overlap="queue"), "holdfast-nightly-29713785")
    assert later.stdout not in (first.stdout, "")
    assert len(cluster.jobs()) == 2


def test_nothing_is_enqueued_beside_a_job_that_is_not_finished(cluster: Cluster) -> None:
    first = cluster.enqueue(at_three(), "holdfast-nightly-29712345")
    next_day = cluster.enqueue(at_three(), "holdfast-nightly-29713785")
    assert (first.returncode, next_day.returncode) == (0, 0), (first.stderr, next_day.stderr)
    assert first.stdout == next_day.stdout
    (job,) = cluster.jobs()
    assert job.args == ARGS
