"""What is special about the pods of the server: others reach them, and Kubernetes asks how they are."""

from holdfast.deploy.pods import Manifest, labels, metadata
from holdfast.deploy.values import Values
from holdfast.server.settings import PORT

_NAME = "http"
_OUTSIDE = 80
_LOCAL = [{"name": "Host", "value": "localhost"}]  # a name that every server goes by


def server_arguments(values: Values) -> list[str]:
    """Give the command line of a server that listens to all who reach the pod; they need a token."""
    arguments = ["serve", "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104 - a pod is reached from outside
    if values.server_url is not None:
        arguments += ["--url", values.server_url]
    # Within the cluster it goes by the name of its Service.
    return [*arguments, "--host-name", f"{values.name}-server"] + (
        ["--metrics"] if values.metrics_port is not None else []
    )


def serving() -> Manifest:
    """Say where the container listens, and how it is asked: a database that is away takes no pod down."""
    return {
        "ports": [{"name": _NAME, "containerPort": PORT}],
        "livenessProbe": _asked("/healthz", every_s=10),
        "readinessProbe": _asked("/readyz", every_s=5),
    }


def _asked(path: str, every_s: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": _NAME, "httpHeaders": _LOCAL},
        "periodSeconds": every_s,
        "timeoutSeconds": 5,
    }


def service(values: Values, component: str) -> Manifest:
    """Make the Service by which others reach the pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(values, f"{values.name}-{component}", component),
        "spec": {
            "selector": labels(values, component),
            "ports": [{"name": _NAME, "port": _OUTSIDE, "targetPort": _NAME}],
        },
    }
