"""The pods that everything printed here consists of."""

import math
from collections.abc import Sequence
from typing import Any

from holdfast.deploy.values import Facts, Values

Manifest = dict[str, Any]

PROGRAM = "holdfast"
USER = 10_001  # that of the Dockerfile
_TMP = "tmp"
_MARGIN_S = 15
"""What a worker needs after its grace: to give back what still runs, and to end its processes."""


def labels(values: Values, component: str) -> dict[str, str]:
    """What its pods are found by."""
    return {
        "app.kubernetes.io/name": "holdfast",
        "app.kubernetes.io/instance": values.name,
        "app.kubernetes.io/component": component,
    }


def metadata(values: Values, name: str, component: str) -> Manifest:
    """What every object begins with."""
    found: Manifest = {"name": name}
    if values.namespace is not None:
        found["namespace"] = values.namespace
    found["labels"] = {**labels(values, component), "app.kubernetes.io/managed-by": "holdfast-deploy"}
    return found


def variables(values: Values, facts: Facts, elsewhere: Sequence[str] = ()) -> list[Manifest]:
    """The environment: the app, where it finds its store, and which schedules are fired by somebody else."""
    url = {"secretKeyRef": {"name": values.secret, "key": values.url_variable}}
    found: list[Manifest] = [
        {"name": "HOLDFAST_APP", "value": literal(facts.app)},
        {"name": values.url_variable, "valueFrom": url},
    ]
    if elsewhere:
        found.append({"name": "HOLDFAST_SCHEDULES_ELSEWHERE", "value": ",".join(elsewhere)})
    return found


def container(values: Values, name: str, arguments: Sequence[str], environment: list[Manifest]) -> Manifest:
    """One container that runs a command of Holdfast.

    It has no limit of processor time: one that is throttled cannot renew its lease, and its jobs are taken away. It
    has no probes: the process that Kubernetes sees watches the others, renews them, and ends when it cannot go on;
    and a probe that asked the database would restart every worker whenever the database is away.
    """
    return {
        "name": name,
        "image": values.image,
        "command": [PROGRAM],
        "args": list(arguments),
        "env": environment,
        "resources": {
            "requests": {"cpu": values.cpu, "memory": values.memory},
            "limits": {"memory": values.memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": _TMP, "mountPath": "/tmp"}],  # noqa: S108 - a volume of the pod's own
    }


def pod(containers: list[Manifest], **more: Any) -> Manifest:
    """One pod: not as root, nothing writable but its own /tmp, and no business with the cluster."""
    return {
        **more,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": containers,
        "volumes": [{"name": _TMP, "emptyDir": {}}],
    }


def termination_s(facts: Facts) -> int:
    """How long a pod may take to leave: the app's own grace, and some time to give back what did not end."""
    return math.ceil(facts.grace_s) + _MARGIN_S


def literal(text: str) -> str:
    """Keep Kubernetes from reading `$(NAME)` inside a text."""
    return text.replace("$", "$$")
