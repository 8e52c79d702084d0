"""`holdfast services list|set|reset`."""

import click

from holdfast import ages
from holdfast.cli import cluster_shapes, listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.client.services import ServiceState
from holdfast.stores.cluster import LeaderRow


@click.group("services", cls=Noun, examples=("list", "set promote --interval 2s", "reset promote"))
def services() -> None:
    """Look at the services, and change how they run."""


@services.command("list", examples=("", "-o csv", "--json"))
@listing.form
@click.pass_context
def list_services(ctx: click.Context, *, form: listing.Form) -> None:
    """List the services.

    How each is set, and what it has done since its leader began; the leader tells it every ten seconds.
    """

    async def read(session: Session) -> tuple[list[ServiceState], list[LeaderRow]]:
        return await session.client.services(), await session.client.leaders()

    states, leaders = with_store(ctx, read)
    titles = ("SERVICE", "EVERY", "BATCH", "ROUNDS", "SCANNED", "MOVED", "FAILURES", "LATE", "TOLD")
    columns = [Column(title, is_number=title in titles[2:8]) for title in titles]
    listing.write(form, cluster_shapes.services(states, leaders), columns, [_row(state) for state in states])
    if form is not listing.Form.TABLE:
        return
    for leader in leaders:
        output.note(f"{leader.holder} leads since {ages.iso(leader.since)} (term {leader.term})")
    if not leaders:
        output.note("nobody leads: start a worker, or `holdfast upkeep`")


def _row(state: ServiceState) -> list[Cell]:
    cadence, report = state.cadence, state.report
    every = f"{cadence.interval_s:g} s" if cadence.enabled else "off"
    batch = "" if cadence.batch is None else f"{cadence.batch:,}"
    marked = every + (" *" if state.changed else "")
    if report is None:
        return [Cell(state.name), Cell(marked), Cell(batch), *(Cell("") for _ in range(6))]
    counts = (report.runs, report.scanned, report.moved, report.failures)
    told = Cell("") if report.at is None else Cell(ages.age(report.at, ages.now()), ages.iso(report.at))
    if report.error is not None:
        told = Cell(report.error, style="red")
    return [
        Cell(state.name),
        Cell(marked),
        Cell(batch),
        *(Cell(f"{count:,}", str(count)) for count in counts),
        Cell(f"{report.lag_ms:,} ms", str(report.lag_ms)),
        told,
    ]


@services.command("set", examples=("promote --interval 2s --reason 'fewer looks'", "gauges --off"))
@click.argument("name")
@click.option("--interval", metavar="TIME", help="The longest time between two rounds: 500ms, 5s.")
@click.option("--batch", type=int, metavar="N", help="What one round does at most.")
@click.option("--on/--off", "enabled", default=None, help="Whether it runs at all.")
@options.reason
@options.actor
@click.pass_context
def set_service(
    ctx: click.Context,
    *,
    name: str,
    interval: str | None,
    batch: int | None,
    enabled: bool | None,
    reason: str | None,
    actor: str | None,
) -> None:
    """Change how a service runs.

    For everybody and within five seconds; it stays so until it is reset.
    """
    if interval is None and batch is None and enabled is None:
        message = "give --interval, --batch, --on or --off"
        raise click.UsageError(message, ctx)

    async def change(session: Session) -> None:
        await session.client.set_service(
            name, interval=interval, batch=batch, enabled=enabled, actor=actor, reason=reason
        )

    with_store(ctx, change)
    output.line(f"{name} is set")


@services.command("reset", examples=("promote",))
@click.argument("name")
@click.pass_context
def reset(ctx: click.Context, *, name: str) -> None:
    """Let a service run again as the programs say."""

    async def change(session: Session) -> None:
        await session.client.reset_service(name)

    with_store(ctx, change)
    output.line(f"{name} is reset")
