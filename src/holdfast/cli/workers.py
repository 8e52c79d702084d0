"""`holdfast workers list|drain`."""

import click

from holdfast import sizes
from holdfast.cli import listing, options, output
from holdfast.cli.connect import with_store
from holdfast.cli.grammar import Noun, program_of
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.resources.worker import WorkerInfo, WorkerList, WorkerState

_STYLES: dict[WorkerState, str] = {
    "alive": "green",
    "shutting down": "cyan",
    "lease ended": "yellow",
    "dead": "bright_black",
}
_SHORT = 8


def _memory(count: int | None) -> Cell:
    return Cell("-") if count is None else Cell(sizes.size(count), str(count))


_WORKERS = ResourceTable[WorkerInfo](
    Attribute("ID", lambda worker: worker.id, is_number=True),
    Attribute("HOST", lambda worker: worker.host, is_flexible=True),
    Attribute("PID", lambda worker: worker.pid, is_number=True),
    Attribute("INSTANCE", lambda worker: Cell(worker.instance[:_SHORT], worker.instance), is_flexible=True),
    Attribute("VERSION", lambda worker: worker.version or "unknown", is_flexible=True),
    Attribute("QUEUES", lambda worker: ", ".join(worker.queues) or "all", is_flexible=True),
    Attribute("SLOTS", lambda worker: worker.slots, is_number=True),
    Attribute("JOBS", lambda worker: worker.running, is_number=True),
    Attribute("STATE", lambda worker: Cell(worker.state, style=_STYLES[worker.state])),
    Attribute("SEEN", lambda worker: worker.seen_at),
    Attribute("MEMORY", lambda worker: _memory(worker.memory_bytes), is_number=True, is_spare=True),
)


@click.group("workers", cls=Noun, examples=("list", "list --all", "drain 17"))
def workers() -> None:
    """List the processes that run jobs, and ask them to shut down."""


@workers.command("list", examples=("", "--all", "-o id", "--json"))
@click.option("--all", "with_dead", is_flag=True, help="Also workers that died and whose jobs were requeued.")
@listing.form
@click.pass_context
def list_workers(ctx: click.Context, *, with_dead: bool, form: listing.Form) -> None:
    """List the processes that run jobs.

    Each process of `worker` is one line; processes that were started together share an instance. SEEN is when it last
    renewed its lease, and MEMORY what it had then. A worker whose lease ended is not trusted any more, and its jobs are
    about to be requeued. A worker that is shutting down was asked to with `workers drain`.
    """
    found, now = listing.read(ctx, lambda session: session.client.workers.list(dead=True))
    listed = [worker for worker in found if with_dead or worker.dead_at is None]
    empty = f"no worker is alive; start one with `{program_of(ctx)} worker`"
    listing.write(form, WorkerList(workers=listed), *_WORKERS.of(listed, now), empty=empty)
    if form is listing.Form.TABLE and len(listed) < len(found):
        output.note(f"{len(found) - len(listed)} dead not shown: --all")


@workers.command("drain", examples=("17", "619c2b4f --actor alice", "17 --json"))
@click.argument("worker", metavar="WORKER|INSTANCE")
@options.actor
@options.as_json
@click.pass_context
def drain(ctx: click.Context, *, worker: str, actor: str | None, as_json: bool) -> None:
    """Ask the instance of a worker to shut down, as one SIGTERM would.

    WORKER is the number of one of its processes; INSTANCE its own name or the beginning of it. Within seconds it claims
    no more jobs, lets running jobs finish within the app's shutdown grace, and all its processes exit with code 0. What
    started it, such as systemd or Kubernetes, may start another.
    """
    drained = with_store(ctx, lambda session: session.client.workers.drain(worker, actor=actor))
    if as_json:
        output.write_json(WorkerList(workers=drained))
        return
    for info in drained:
        output.line(f"{info.id} ({info.host}, process {info.pid}) shuts down; it runs {info.running} jobs")
    if not drained:
        output.note("it has exited already")
