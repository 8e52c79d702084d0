import os
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"


@pytest.fixture
def workflow() -> dict[Any, Any]:
    loaded = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"].strip() for step in job["steps"] if "run" in step]


def test_publish_needs_verify(workflow: dict[Any, Any]) -> None:
    publish = workflow["jobs"]["publish"]

    assert publish["needs"] in ("verify", ["verify"])
    assert "if" not in publish, "a condition such as always() would publish what verify refused"


def test_verify_runs_make_test(workflow: dict[Any, Any]) -> None:
    verify = workflow["jobs"]["verify"]

    assert "make test" in commands(verify)
    assert "continue-on-error" not in WORKFLOW.read_text(encoding="utf-8")
    assert "if" not in verify
    assert not any("if" in step for step in verify["steps"])


def test_publish_uploads_the_files_that_verify_built(workflow: dict[Any, Any]) -> None:
    jobs = workflow["jobs"]
    uploads = [step for step in jobs["verify"]["steps"] if "upload-artifact" in step.get("uses", "")]
    downloads = [step for step in jobs["publish"]["steps"] if "download-artifact" in step.get("uses", "")]

    assert commands(jobs["verify"])[-2:] == ["make test", "make dist"]
    assert commands(jobs["publish"]) == []
    assert [step["with"]["name"] for step in uploads] == [step["with"]["name"] for step in downloads] == ["dist"]


def test_only_a_version_tag_releases(workflow: dict[Any, Any]) -> None:
    triggers = workflow[True]  # YAML 1.1 reads the key `on` as a boolean

    assert triggers == {"push": {"tags": ["v*"]}}


def test_continuous_integration_runs_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"

    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").splitlines()[1:] == [
        "set -eu",
        'cd "$(dirname "$0")/.."',
        "export CI=true  # tests may install what they need from Debian, and none is skipped",
        "exec make test",
    ]
