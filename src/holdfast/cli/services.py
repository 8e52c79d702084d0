"""`holdfast services list|set|reset`."""

import click

from holdfast import ages
from holdfast.cli import listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.grammar import Noun, program_of
from holdfast.cli.output import Cell, Column
from holdfast.resources.service import ServiceInfo, ServiceList


@click.group("services", cls=Noun, examples=("list", "run", "set promotion --interval 2s"))
def services() -> None:
    """Look at the services, run and change them."""


@services.command("list", examples=("", "-o csv", "--json"))
@listing.form
@click.pass_context
def list_services(ctx: click.Context, *, form: listing.Form) -> None:
    """List the services.

    How each is set, and what it has done since its leader began; the leader reports every ten seconds.
    """

    async def read(session: Session) -> ServiceList:
        namespace = session.client.services
        return ServiceList(services=await namespace.list(), leaders=await namespace.leaders())

    found = with_store(ctx, read)
    titles = ("SERVICE", "EVERY", "BATCH", "ROUNDS", "SCANNED", "MOVED", "FAILURES", "LATE", "REPORTED")
    columns = [Column(title, is_number=title in titles[2:8]) for title in titles]
    listing.write(form, found, columns, [_row(service) for service in found.services])
    if form is not listing.Form.TABLE:
        return
    for leader in found.leaders:
        output.note(f"{leader.holder} leads since {ages.iso(leader.since)} (term {leader.term})")
    if not found.leaders:
        output.note(f"no process leads: start a worker, or `{program_of(ctx)} services run`")


def _row(service: ServiceInfo) -> list[Cell]:
    every = f"{service.interval_ms / 1_000:g} s" if service.enabled else "off"
    cells = [
        Cell(service.name),
        Cell(every + (" *" if service.changed else "")),
        Cell("" if service.batch is None else f"{service.batch:,}"),
    ]
    if service.leader is None:
        return [*cells, *(Cell("") for _ in range(6))]
    counts = (service.rounds, service.scanned, service.moved, service.failures)
    at = service.reported_at
    reported = Cell("") if at is None else Cell(ages.age(at, ages.now()), ages.iso(at))
    return [
        *cells,
        *(Cell(f"{count:,}", str(count)) for count in counts),
        Cell(f"{service.lag_ms:,} ms", str(service.lag_ms)),
        reported if service.error is None else Cell(service.error, style="red"),
    ]


@services.command("set", examples=("promotion --interval 2s --reason 'fewer looks'", "lane_counts --off"))
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

    For all apps and within five seconds, until it is reset.
    """
    if interval is None and batch is None and enabled is None:
        message = "give --interval, --batch, --on or --off"
        raise click.UsageError(message, ctx)

    async def change(session: Session) -> None:
        await session.client.services.set(
            name, interval=interval, batch=batch, enabled=enabled, actor=actor, reason=reason
        )

    with_store(ctx, change)
    output.line(f"{name} is set")


@services.command("reset", examples=("promotion",))
@click.argument("name")
@click.pass_context
def reset(ctx: click.Context, *, name: str) -> None:
    """Let a service run again as the apps say."""
    with_store(ctx, lambda session: session.client.services.reset(name))
    output.line(f"{name} is reset")
