"""Every metric: its name, what it is, its labels, and what it tells."""

from typing import Literal, NamedTuple

Sort = Literal["counter", "gauge", "histogram"]


class Metric(NamedTuple):
    """One metric; a counter is shown under its name with `_total` at the end, which is not repeated."""

    name: str
    sort: Sort
    labels: tuple[str, ...]
    text: str


EXECUTION = "job_execution_duration_seconds"
WAIT = "job_queue_latency_seconds"
RETRIES = "job_retry_total"
DOLLARS = "job_budget_consumed_dollars"
CLAIMS = "holdfast_claim_duration_seconds"
FENCED = "holdfast_fenced_writes_total"
LISTENER = "holdfast_listener_up"
RUNNING = "holdfast_running_jobs"
SLOTS = "holdfast_slots"
PROCESSES = "holdfast_processes"
MEMORY = "holdfast_worker_memory_bytes"
LEADER = "holdfast_leader"
ROUNDS = "holdfast_service_rounds_total"
MOVED = "holdfast_service_moved_total"
FAILURES = "holdfast_service_failures_total"
LAG = "holdfast_service_lag_seconds"
REQUESTS = "holdfast_http_request_duration_seconds"
BACKLOG = "job_queue_backlog_total"
IN_HAND = "holdfast_queue_backlog"
JOBS = "holdfast_jobs"
OLDEST = "holdfast_oldest_wait_seconds"
PAUSED = "holdfast_queue_paused"
LIMIT_SLOTS = "holdfast_limit_slots"
LIMIT_HELD = "holdfast_limit_held_jobs"

_KIND = ("job_type", "queue")

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        # Told by every process, of its own work.
        Metric(EXECUTION, "histogram", (*_KIND, "status"), "How long handlers ran, by how their claim ended."),
        Metric(WAIT, "histogram", _KIND, "How long jobs waited from when they were due to the start of their handler."),
        Metric(RETRIES, "counter", _KIND, "Attempts that failed and are followed by another."),
        Metric(DOLLARS, "counter", ("job_type",), "Dollars that handlers reported as spent."),
        Metric(CLAIMS, "histogram", (), "How long the store took to answer a claim."),
        Metric(FENCED, "counter", (), "Writes that the store refused because the claim was lost."),
        Metric(LISTENER, "gauge", (), "Whether every process can rely on hints of new jobs (1), or has to poll (0)."),
        Metric(RUNNING, "gauge", ("queue",), "Jobs that run in this worker instance."),
        Metric(SLOTS, "gauge", (), "Jobs that may run at once in this worker instance."),
        Metric(PROCESSES, "gauge", (), "Processes of this worker instance that run jobs."),
        Metric(MEMORY, "gauge", (), "Resident memory of those processes, where the system tells it."),
        Metric(LEADER, "gauge", (), "Whether this process runs the services (1), or stands by (0)."),
        Metric(ROUNDS, "counter", ("service",), "Rounds that a service made in this process."),
        Metric(MOVED, "counter", ("service",), "What those rounds changed."),
        Metric(FAILURES, "counter", ("service",), "Rounds of a service that failed."),
        Metric(LAG, "gauge", ("service",), "How late a service was at worst, of late."),
        Metric(
            REQUESTS,
            "histogram",
            ("method", "route", "status"),
            "How long a server took until its answer began, by what was asked for and how it was answered.",
        ),
        # Told by the leader's process alone, of the whole store.
        Metric(BACKLOG, "gauge", ("queue",), "Jobs that wait and could run: queued or held."),
        Metric(IN_HAND, "gauge", ("queue",), "Jobs that are ready on a queue that is not paused, or run: to scale by."),
        Metric(JOBS, "gauge", ("queue", "state"), "Live jobs by state; no number is counted beyond 10,001."),
        Metric(OLDEST, "gauge", ("queue",), "How long the first job in line has been due."),
        Metric(PAUSED, "gauge", ("queue",), "Whether a queue is paused (1)."),
        # Told by the leader's process of limits of the whole cluster, by every instance of its own ones.
        Metric(LIMIT_SLOTS, "gauge", ("limit", "state"), "Slots of a limit: in use (taken) and in all (total)."),
        Metric(LIMIT_HELD, "gauge", ("limit",), "Jobs that wait for a limit of the whole cluster."),
    )
}


def metric_of(name: str) -> Metric:
    """Find a metric; one that is not in the table is the gauge that a limit was given."""
    return METRICS.get(name) or Metric(name, "gauge", (), "Slots of a limit that are in use.")
