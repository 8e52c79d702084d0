"""What an operator chooses for a cluster, and what the app itself says."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from holdfast import names
from holdfast.configuration.report import Report
from holdfast.configuration.yaml_file import read_yaml
from holdfast.errors import InvalidValue, shown
from holdfast.worker_settings import MOST_CONCURRENT, MOST_PROCESSES

Autoscale = Literal["none", "keda", "hpa"]
Schedules = Literal["holdfast", "cronjob"]

MOST_REPLICAS = 10_000
LARGEST_PORT = 65_535
METRICS_PORT = 9_464  # where exporters of OpenTelemetry are looked for
LONGEST_NAME = 40  # so that "-worker" and the like, and the names of pods, still fit
_LONGEST_NAMESPACE = 63
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_DOTTED = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_IMAGE = re.compile(r"[\w][\w./:@-]{0,511}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_]\w{0,127}", re.ASCII)
_QUANTITY = re.compile(r"[1-9]\d{0,8}(m|k|M|G|Ki|Mi|Gi)?", re.ASCII)
_ADDRESS = re.compile(r"https?://[\w.:/\[\]~-]+", re.ASCII)
_TAKEN = ("HOLDFAST_APP", "HOLDFAST_STORE", "HOLDFAST_SCHEDULES_ELSEWHERE")


class CronJobValues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator changes of one CronJob: when it runs, and whether."""

    schedule: str | None = None
    suspend: bool | None = None


class Values(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator chooses; the names are those of the options and of the values file."""

    image: str
    name: str = "holdfast"
    namespace: str | None = None
    replicas: int = 2
    services_replicas: int = 2
    queues: tuple[str, ...] = ()
    concurrency: int | None = None
    processes: int | None = None
    secret: str = "holdfast"  # noqa: S105 - the name of a Secret, not what is in it
    url_variable: str = "DATABASE_URL"
    cpu: str = "250m"
    memory: str = "512Mi"
    migrate: bool = True
    autoscale: Autoscale = "none"
    min_replicas: int = 1
    max_replicas: int = 10
    metrics: int | None = None
    server_replicas: int = 0
    server_url: str | None = None
    schedules: Schedules = "holdfast"
    cronjobs: dict[str, CronJobValues] = {}

    @property
    def metrics_port(self) -> int | None:
        """Where pods show metrics: as chosen, and always where an autoscaler lives by them."""
        return METRICS_PORT if self.metrics is None and self.autoscale == "hpa" else self.metrics


@dataclass(frozen=True)
class Facts:
    """What the app says: where it is found, its schema and queues, its slots, and how long its jobs may go on."""

    app: str
    schema: str
    queues: tuple[str, ...]
    concurrency: int
    grace_s: float


def read_file(text: str, source: str) -> dict[str, Any]:
    """Read a values file: a mapping in YAML."""
    report = Report(source)
    read = read_yaml(text, report)
    if report.errors:
        message = f"{report.errors[0]}; a line of a values file looks like image: shop:1.0"
        raise InvalidValue(message)
    return read


def read_values(given: Mapping[str, Any], source: str) -> Values:
    """Check what was chosen."""
    if "image" not in given:
        message = f"{source}: expected the image to run; give --image shop:1.0, or image in the values file"
        raise InvalidValue(message)
    try:
        values = msgspec.convert(dict(given), Values)
    except msgspec.ValidationError as error:
        message = f"{source}: {str(error)[:1].lower()}{str(error)[1:]}; the names are those of the options"
        raise InvalidValue(message) from error
    _check_texts(values)
    _check_counts(values)
    if values.cronjobs and values.schedules != "cronjob":
        message = f"cronjobs: {shown(next(iter(values.cronjobs)))} is changed, but Holdfast fires the schedules itself;"
        message += " give --schedules cronjob"
        raise InvalidValue(message)
    return values


def _check_texts(values: Values) -> None:
    _check(_LABEL, values.name, "name", f"at most {LONGEST_NAME} lower-case letters, digits and dashes", LONGEST_NAME)
    if values.namespace is not None:
        what = "lower-case letters, digits and dashes"
        _check(_LABEL, values.namespace, "namespace", what, _LONGEST_NAMESPACE)
    _check(_IMAGE, values.image, "image", "an image, such as registry.example.org/shop:1.0")
    _check(_DOTTED, values.secret, "secret", "the name of a Secret in the same namespace")
    _check(_VARIABLE, values.url_variable, "url_variable", "the name of an environment variable")
    _check(_QUANTITY, values.cpu, "cpu", "a quantity, such as 250m or 2")
    _check(_QUANTITY, values.memory, "memory", "a quantity, such as 512Mi")
    if values.server_url is not None:
        expected = "an address that people see, such as https://jobs.example.org/holdfast"
        _check(_ADDRESS, values.server_url, "server_url", expected)
    if values.url_variable in _TAKEN:
        message = f"url_variable: expected a variable that the app itself reads, got {values.url_variable}, which the"
        message += " command line reads"
        raise InvalidValue(message)
    for queue in values.queues:
        names.name(queue, "queues")


def _check(pattern: re.Pattern[str], value: str, what: str, expected: str, longest: int = 512) -> None:
    if len(value) > longest or not pattern.fullmatch(value):
        message = f"{what}: expected {expected}, got {shown(value)}"
        raise InvalidValue(message)


def _check_counts(values: Values) -> None:
    names.count(values.replicas, "replicas", MOST_REPLICAS)
    names.count(values.services_replicas, "services_replicas", MOST_REPLICAS)
    names.count(values.max_replicas, "max_replicas", MOST_REPLICAS)
    if values.server_replicas != 0:
        names.count(values.server_replicas, "server_replicas", MOST_REPLICAS)
    elif values.server_url is not None:
        message = f"server_url: expected server_replicas with it, got {shown(values.server_url)} and no server"
        raise InvalidValue(message)
    if values.concurrency is not None:
        names.count(values.concurrency, "concurrency", MOST_CONCURRENT)
    if values.processes is not None:
        names.count(values.processes, "processes", MOST_PROCESSES)
    if values.metrics is not None:
        names.count(values.metrics, "metrics", LARGEST_PORT)
    fewest = 0 if values.autoscale == "keda" else 1  # the autoscaler of Kubernetes itself does not go down to none
    if not fewest <= values.min_replicas <= values.max_replicas:
        message = f"min_replicas: expected from {fewest} to max_replicas ({values.max_replicas}), got"
        message += f" {values.min_replicas}"
        raise InvalidValue(message)
