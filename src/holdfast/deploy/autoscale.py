"""More workers when there is more to do: by KEDA, which asks the database, or by a metric that somebody exports."""

from holdfast.deploy.pods import Manifest, metadata
from holdfast.deploy.values import Facts, Values
from holdfast.stores.sql import in_schema, load_queries

METRIC = "holdfast_queue_backlog"
_QUERIES = load_queries("holdfast.deploy")
_POLL_S = 15
_COOL_DOWN_S = 300


def scaled_object(values: Values, facts: Facts, target: str) -> Manifest:
    """Let KEDA count the jobs that wait or run, and start a worker for as many as one has slots."""
    trigger = {
        "type": "postgresql",
        "name": "jobs",
        "metricType": "AverageValue",
        "metadata": {
            "connectionFromEnv": values.url_variable,
            "query": jobs_in_hand(values, facts),
            "targetQueryValue": str(_slots(values, facts)),
        },
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": metadata(values, target, "worker"),
        "spec": {
            "scaleTargetRef": {"name": target},
            "pollingInterval": _POLL_S,
            "cooldownPeriod": _COOL_DOWN_S,
            "minReplicaCount": values.min_replicas,
            "maxReplicaCount": values.max_replicas,
            "triggers": [trigger],
        },
    }


def autoscaler(values: Values, facts: Facts, target: str) -> Manifest:
    """Let Kubernetes itself do it, by an external metric."""
    metric = {
        "metric": {"name": METRIC},
        "target": {"type": "AverageValue", "averageValue": str(_slots(values, facts))},
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(values, target, "worker"),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": values.min_replicas,
            "maxReplicas": values.max_replicas,
            "metrics": [{"type": "External", "external": metric}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": _COOL_DOWN_S}},
        },
    }


def jobs_in_hand(values: Values, facts: Facts) -> str:
    """What KEDA asks; jobs that run count too, because workers busy with the last ones are not to be taken away."""
    queues = ", ".join(f"'{queue}'" for queue in facts.queues)
    query = _QUERIES["jobs_in_hand"].replace(":queues", queues)
    query = query.replace(":most", str(values.max_replicas * _slots(values, facts)))
    return in_schema(" ".join(query.split()), facts.schema)


def _slots(values: Values, facts: Facts) -> int:
    return values.concurrency or facts.concurrency
