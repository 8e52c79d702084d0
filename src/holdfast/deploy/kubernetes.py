"""Everything that an app needs on Kubernetes, as the objects that are sent there."""

from collections.abc import Iterable, Sequence

import yaml

from holdfast.deploy.autoscale import autoscaler, scaled_object
from holdfast.deploy.cronjobs import Scheduled, cronjobs
from holdfast.deploy.pods import Manifest, container, labels, metadata, pod, termination_s, variables
from holdfast.deploy.servers import server_arguments, service, serving
from holdfast.deploy.values import Facts, Values

_WIDTH = 120
_STEADY_S = 10
_SERVER = "server"
_HEAD = "# Printed by `holdfast deploy kubernetes`: change its options or its values file, not this.\n"


def manifests(values: Values, facts: Facts, schedules: Iterable[Scheduled]) -> list[Manifest]:
    """Make all objects: workers, services, the server, and what disturbs, scales and fires them."""
    by_name = sorted(schedules, key=lambda schedule: schedule.name)
    handed_over = by_name if values.schedules == "cronjob" else []
    elsewhere = [schedule.name for schedule in handed_over]
    worker = f"{values.name}-worker"
    replicas = None if values.autoscale != "none" else values.replicas
    environment = variables(values, facts, elsewhere)
    found = [
        _deployment(values, "worker", replicas, _pod(values, facts, "worker", _worker_arguments(values), environment)),
        _budget(values, "worker"),
        _deployment(
            values,
            "services",
            values.services_replicas,
            _pod(values, facts, "services", _services_arguments(values), environment),
        ),
        _budget(values, "services"),
    ]
    if values.autoscale == "keda":
        found.append(scaled_object(values, facts, worker))
    if values.autoscale == "hpa":
        found.append(autoscaler(values, facts, worker))
    if values.server_replicas:
        found += _server(values, facts, environment)
    return [*found, *cronjobs(values, handed_over, environment)]


def text(objects: Sequence[Manifest]) -> str:
    """Write objects as YAML."""
    return _HEAD + yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, width=_WIDTH, explicit_start=True)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Write what occurs twice twice: people read it."""
        return True


def _worker_arguments(values: Values) -> list[str]:
    arguments = ["worker"]
    if values.queues:
        arguments += ["--queues", ",".join(values.queues)]
    if values.concurrency is not None:
        arguments += ["--concurrency", str(values.concurrency)]
    if values.processes is not None:
        arguments += ["--processes", str(values.processes)]
    return arguments + _metrics_arguments(values)


def _services_arguments(values: Values) -> list[str]:
    return ["services", "run", *_metrics_arguments(values)]


def _metrics_arguments(values: Values) -> list[str]:
    port = values.metrics_port
    return [] if port is None else ["--metrics", f"0.0.0.0:{port}"]


def _pod(values: Values, facts: Facts, component: str, arguments: list[str], environment: list[Manifest]) -> Manifest:
    more: Manifest = {"terminationGracePeriodSeconds": termination_s(facts)}
    more["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels(values, component)},
        }
    ]
    if values.migrate:  # several at once wait for each other, and all but the first find nothing to do
        more["initContainers"] = [container(values, "migrate", ["migrate", "up"], environment)]
    own = container(values, component, arguments, environment)
    if component == _SERVER:
        own |= serving()
    elif values.metrics_port is not None:
        own["ports"] = [{"name": "metrics", "containerPort": values.metrics_port}]
    return pod([own], **more)


def _server(values: Values, facts: Facts, environment: list[Manifest]) -> list[Manifest]:
    """Make the server: its pods, their budget, and the Service by which others reach them."""
    own_pod = _pod(values, facts, _SERVER, server_arguments(values), environment)
    return [
        _deployment(values, _SERVER, values.server_replicas, own_pod),
        _budget(values, _SERVER),
        service(values, _SERVER),
    ]


def _deployment(values: Values, component: str, replicas: int | None, template: Manifest) -> Manifest:
    """Make a Deployment; without replicas where something else counts them, so that applying it again changes none."""
    own = labels(values, component)
    spec: Manifest = {} if replicas is None else {"replicas": replicas}
    spec |= {
        "minReadySeconds": _STEADY_S,  # an image that cannot start stops the roll-out here
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": own},
        "template": {"metadata": {"labels": own, **_annotations(values, component)}, "spec": template},
    }
    head = metadata(values, f"{values.name}-{component}", component)
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": head, "spec": spec}


def _annotations(values: Values, component: str) -> Manifest:
    """Let a Prometheus that looks for pods by the usual annotations find this one; a server asks it for a token."""
    if values.metrics_port is None or component == _SERVER:
        return {}
    return {"annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": str(values.metrics_port)}}


def _budget(values: Values, component: str) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(values, f"{values.name}-{component}", component),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels(values, component)}},
    }
