"""`deploy kubernetes`, as a person types it."""

from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from holdfast.cli.locate import Target
from holdfast.cli.main import standalone
from holdfast.schedules import Schedule
from tests.cli.manifests import objects

SOURCE = """
from holdfast import Holdfast, Queue, WorkerSettings
from holdfast.schedules import Schedule

app = Holdfast(
    {url!r},
    schema="shop",
    queues=[Queue("high")],
    worker=WorkerSettings(shutdown_grace="2m", concurrency=7),
    schedules=[Schedule(name="often", kind="report", every="5m")],
)

@app.schedule(name="nightly", cron="0 3 * * *", tz="Europe/Berlin")
@app.task(queue="reports")
async def report(day: str = "") -> None: ...
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Stand in the folder of a program of this test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    name = f"shop_{request.node.name.partition('[')[0]}"
    monkeypatch.setenv("HOLDFAST_APP", f"{name}:app")
    (tmp_path / f"{name}.py").write_text(SOURCE.format(url="postgresql://nobody@nowhere/shop"), encoding="utf-8")


def deploy(*args: str) -> Result:
    result = CliRunner().invoke(standalone, ["deploy", "kubernetes", *args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def printed(*args: str) -> dict[tuple[str, str], Any]:
    result = deploy(*args)
    assert (result.exit_code, result.stderr) == (0, "")
    return {(one["kind"], one["metadata"]["name"]): one["spec"] for one in yaml.safe_load_all(result.stdout)}


def test_what_the_app_says_is_in_it() -> None:
    found = printed("--image", "shop:1.0", "--autoscale", "keda")
    assert list(found) == [
        ("Deployment", "holdfast-worker"),
        ("PodDisruptionBudget", "holdfast-worker"),
        ("Deployment", "holdfast-services"),
        ("PodDisruptionBudget", "holdfast-services"),
        ("ScaledObject", "holdfast-worker"),
    ]
    pod = found["Deployment", "holdfast-worker"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 135
    trigger = found["ScaledObject", "holdfast-worker"]["triggers"][0]["metadata"]
    assert trigger["targetQueryValue"] == "7"
    assert "ARRAY['high', 'reports', 'default']" in trigger["query"]
    assert '"shop".jobs' in trigger["query"]


def test_options_stand_over_the_file(tmp_path: Path) -> None:
    values = {"image": "shop:1.0", "name": "shop", "replicas": 3, "queues": ["high"], "schedules": "cronjob"}
    cronjobs = {"nightly": {"schedule": "0 1 * * *", "suspend": True}, "often": {"schedule": "*/5 * * * *"}}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({**values, "cronjobs": cronjobs}), encoding="utf-8")
    given = ("--values", "values.yaml", "--replicas", "5", "--queues", "high, low", "--schedule", "nightly=0 4 * * *")
    found = printed(*given, "--suspend", "often", "--no-migrate")
    worker = found["Deployment", "shop-worker"]
    assert worker["replicas"] == 5
    assert worker["template"]["spec"]["containers"][0]["args"] == ["worker", "--queues", "high,low"]
    assert "initContainers" not in worker["template"]["spec"]
    nightly, often = found["CronJob", "shop-nightly"], found["CronJob", "shop-often"]
    assert (nightly["schedule"], nightly["suspend"], nightly["timeZone"]) == ("0 4 * * *", True, "Europe/Berlin")
    assert (often["schedule"], often["suspend"]) == ("*/5 * * * *", True)


@pytest.mark.parametrize(
    "args, said",
    [
        ((), "holdfast deploy kubernetes: expected the image to run; give --image shop:1.0"),
        (("--image", "shop:1.0", "--replicas", "0"), "replicas: expected a whole number from 1 to 10000, got 0"),
        (("--image", "shop:1.0", "--schedules", "cronjob"), "schedule 'often': a CronJob cannot express an interval"),
        (("--image", "shop:1.0", "--schedule", "nightly"), "--schedule: expected NAME=CRON"),
        (("--image", "shop:1.0", "--suspend", "nightly"), "give --schedules cronjob"),
        (("--values", "missing.yaml"), "--values: expected a readable YAML file, got 'missing.yaml'"),
    ],
)
def test_mistakes_are_refused_with_2(args: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(standalone, ["deploy", "kubernetes", *args], prog_name="holdfast")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_file_of_another_shape_is_refused(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("image: shop:1.0\ncronjobs: [nightly]\n", encoding="utf-8")
    for more in ((), ("--suspend", "nightly", "--schedules", "cronjob")):
        result = deploy("--values", "values.yaml", *more)
        assert result.exit_code == 2, result.output
        assert "values.yaml: expected `object`, got `array` - at `$.cronjobs`" in result.stderr


def test_a_store_for_one_machine_is_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_on_sqlite.py").write_text(SOURCE.format(url="sqlite:///jobs.db"), encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_APP", "shop_on_sqlite:app")
    result = deploy("--image", "shop:1.0")
    assert result.exit_code == 0
    assert "in the cluster DATABASE_URL has to lead to PostgreSQL" in result.stderr
    assert not (tmp_path / "jobs.db").exists()


def test_the_command_line_understands_what_every_container_is_to_run() -> None:
    schedules = [Schedule(name="nightly", kind="report", cron="0 3 * * *", args={"day": "today"})]
    found = objects(schedules, schedules="cronjob", queues=["high"], concurrency=4, processes=2)
    templates = [one["spec"].get("template") or one["spec"].get("jobTemplate") for one in found]
    pods = [(template["spec"].get("template") or template)["spec"] for template in templates if template]
    containers = [container for pod in pods for container in [*pod["containers"], *pod.get("initContainers", ())]]
    assert len(containers) == 5
    for container in containers:
        command: click.Command = standalone
        words = list(container["args"])
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        parent = click.Context(standalone, **{**standalone.context_settings, "obj": Target()})
        command.make_context(container["args"][0], words, parent=parent)  # raises on what it does not know
