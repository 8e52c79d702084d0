"""`holdfast deploy kubernetes`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from holdfast.app import Holdfast
from holdfast.cli import locate, output
from holdfast.cli.grammar import Noun
from holdfast.deploy.kubernetes import manifests, text
from holdfast.deploy.values import Autoscale, Facts, Schedules, read_file, read_values
from holdfast.errors import InvalidValue, shown
from holdfast.locations import SqliteLocation
from holdfast.worker.parts import queues_of

_EXAMPLES = (
    "--image shop:1.0",
    "--image shop:1.0 --replicas 4 --autoscale keda --max-replicas 20",
    "--image shop:1.0 --schedules cronjob --schedule nightly='0 4 * * *' --suspend digest",
    "--image shop:1.0 --server-replicas 2 --server-url https://jobs.example.org",
    "--values production.yaml",
)


@click.group("deploy", cls=Noun, examples=tuple(f"kubernetes {example}" for example in _EXAMPLES))
def deploy() -> None:
    """Print what is needed to run the app elsewhere."""


@deploy.command("kubernetes", examples=_EXAMPLES)
@click.option(
    "--values", "values_file", type=click.Path(path_type=Path), metavar="FILE", help="A YAML file of these options."
)
@click.option("--image", metavar="IMAGE", help="The image with the app in it.")
@click.option("--name", metavar="NAME", help="What the names of all objects begin with. [default: holdfast]")
@click.option("--namespace", metavar="NAME", help="The namespace. [default: that of kubectl]")
@click.option("--replicas", type=int, metavar="N", help="How many pods of workers. [default: 2]")
@click.option(
    "--services-replicas", type=int, metavar="N", help="How many pods of the services; one leads. [default: 2]"
)
@click.option("--queues", metavar="NAME,...", help="Work these queues only. [default: all that the app knows]")
@click.option("--concurrency", type=int, metavar="N", help="Jobs at once in each pod. [default: the app's]")
@click.option("--processes", type=int, metavar="N", help="Processes in each pod. [default: the app's]")
@click.option("--secret", metavar="NAME", help="The Secret that holds the store's URL. [default: holdfast]")
@click.option(
    "--url-variable", metavar="NAME", help="Its key, and the variable that the app reads. [default: DATABASE_URL]"
)
@click.option("--cpu", metavar="QUANTITY", help="What each pod asks for. [default: 250m]")
@click.option("--memory", metavar="QUANTITY", help="What each pod asks for, and its limit. [default: 512Mi]")
@click.option("--no-migrate", is_flag=True, help="Do not bring the schema up to date before a pod starts.")
@click.option("--autoscale", type=click.Choice(get_args(Autoscale)), help="Who counts the workers. [default: none]")
@click.option("--min-replicas", type=int, metavar="N", help="With --autoscale: at least. [default: 1]")
@click.option("--max-replicas", type=int, metavar="N", help="With --autoscale: at most. [default: 10]")
@click.option("--metrics", type=int, metavar="PORT", help="Let pods show metrics. [default: none; 9464 with hpa]")
@click.option("--server-replicas", type=int, metavar="N", help="How many pods of the server. [default: none]")
@click.option("--server-url", metavar="URL", help="The address at which people see the server, through your ingress.")
@click.option("--schedules", type=click.Choice(get_args(Schedules)), help="Who keeps the time. [default: holdfast]")
@click.option("--schedule", "lines", multiple=True, metavar="NAME=CRON", help="Another time for a CronJob.")
@click.option("--suspend", multiple=True, metavar="NAME", help="A CronJob that is not to run.")
@click.pass_context
def kubernetes(
    ctx: click.Context,
    /,
    *,
    values_file: Path | None,
    no_migrate: bool,
    lines: Sequence[str],
    suspend: Sequence[str],
    **given: Any,
) -> None:
    """Print the objects that run the app on Kubernetes.

    Deployments of workers and of the services with budgets for their disruption; the server and its Service, an
    autoscaler, and a CronJob for each schedule, if asked for. Nothing is sent anywhere: pipe it into
    `kubectl apply -f -`, or keep it with your code.
    """
    named = locate.spelled_app(ctx)
    app = locate.imported_app(named)
    chosen = {} if values_file is None else read_file(_content(values_file), str(values_file))
    chosen |= {name: value for name, value in given.items() if value is not None}
    if no_migrate:
        chosen["migrate"] = False
    if isinstance(chosen.get("queues"), str):
        chosen["queues"] = [queue.strip() for queue in chosen["queues"].split(",")]
    if lines or suspend:
        chosen["cronjobs"] = _cronjobs(chosen.get("cronjobs", {}), lines, suspend)
    values = read_values(chosen, ctx.command_path if values_file is None else str(values_file))
    if isinstance(app.config.location, SqliteLocation):
        output.note(f"the app's store is SQLite here; in the cluster {values.url_variable} has to lead to PostgreSQL")
    objects = manifests(values, _facts(named.app, app, values.queues), app.schedule_definitions.values())
    click.echo(text(objects), nl=False)


def _facts(spelled: str, app: Holdfast, queues: Sequence[str]) -> Facts:
    return Facts(
        app=spelled,
        schema=app.config.schema,
        queues=queues_of(app.parts, queues or None),
        concurrency=app.config.worker.concurrency,
        grace_s=app.config.worker.shutdown_grace_s,
    )


def _cronjobs(before: Any, lines: Sequence[str], suspend: Sequence[str]) -> Any:
    """Lay the options over what the values file says of each CronJob; what has no such shape is left to be refused."""
    if not isinstance(before, Mapping) or not all(isinstance(inner, Mapping) for inner in before.values()):
        return before
    merged: dict[str, dict[str, Any]] = {name: dict(inner) for name, inner in before.items()}
    for line in lines:
        name, sign, cron = line.partition("=")
        if not name or not sign:
            message = f"--schedule: expected NAME=CRON, such as nightly='0 4 * * *', got {shown(line)}"
            raise InvalidValue(message)
        merged.setdefault(name, {})["schedule"] = cron
    for name in suspend:
        merged.setdefault(name, {})["suspend"] = True
    return merged


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        message = f"--values: expected a readable YAML file, got {shown(str(file))}: {error}"
        raise InvalidValue(message) from error
