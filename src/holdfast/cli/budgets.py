"""`holdfast budgets list|show|ledger|set|settle`."""

from collections.abc import Sequence
from decimal import Decimal
from typing import get_args

import click

from holdfast import ages
from holdfast.cli import budget_shapes, completing, listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell, Column
from holdfast.client.budgets import BudgetState
from holdfast.policies.allowance import Level
from holdfast.policies.money import MICRO, shown_amount
from holdfast.public_id import encode
from holdfast.stores.budgets import By, LedgerRow, LostRow, Part

_STYLES: dict[Level, str] = {
    "normal": "green",
    "alert": "yellow",
    "reduce": "yellow",
    "defer": "red",
    "stop": "red",
}
_STATES = (
    Column("BUDGET", is_flexible=True),
    Column("KEY", is_flexible=True),
    Column("SPENT", is_number=True),
    Column("SHARE", is_number=True),
    Column("RESERVED", is_number=True),
    Column("LOST", is_number=True),
    Column("CEILING", is_number=True),
    Column("UNTIL"),
    Column("LEVEL"),
)
_ENTRIES = (
    Column("TIME"),
    Column("AMOUNT", is_number=True),
    Column("BUDGET", is_flexible=True),
    Column("KIND", is_flexible=True),
    Column("KEY", is_flexible=True),
    Column("ACTOR", is_flexible=True),
    Column("JOB"),
    Column("NOTE", is_flexible=True),
)


@click.group("budgets", cls=Noun, examples=("list", "show ai --by actor", "ledger ai", "set ai '$800'"))
def budgets() -> None:
    """Look at what jobs spend, and change how much they may."""


@budgets.command("list", examples=("", "-o csv", "--json"))
@listing.form
@click.pass_context
def list_budgets(ctx: click.Context, *, form: listing.Form) -> None:
    """List the budgets.

    What was spent in the period so far, what is set aside for jobs that run, and what was set aside for jobs whose
    end nobody saw, which counts as spent. Of a budget that is divided by a key, every key that has come up.
    """

    async def read(session: Session) -> list[BudgetState]:
        return await session.client.budgets()

    states = with_store(ctx, read)
    shape = budget_shapes.BudgetsShape(budget_shapes.budgets(states))
    empty = "no budget holds: none is defined, or none of its keys has come up in this period"
    listing.write(form, shape, _STATES, [_state(state) for state in states], empty=empty)


@budgets.command("show", examples=("ai", "ai --by actor", "ai --json"))
@click.argument("name", shell_complete=completing.budgets)
@click.option("--by", type=click.Choice(get_args(By)), default="kind", help="What to break it down by.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, name: str, by: By, as_json: bool) -> None:
    """Show one budget.

    How far it is, who has spent how much in this period, and what is in doubt.
    """

    async def read(session: Session) -> tuple[list[BudgetState], list[Part], list[LostRow]]:
        client = session.client
        first = await client.budget(name)
        states = [state for state in await client.budgets() if state.name == first.name]
        return states or [first], await client.spend_by(name, by), await client.lost_spend(name)

    states, parts, lost = with_store(ctx, read)
    if as_json:
        output.write_json(budget_shapes.page(states, by, parts, lost))
        return
    _write_states(states)
    unit = states[0].unit
    if parts:
        output.line("")
        columns = [
            Column(by.upper(), is_flexible=True),
            Column("SPENT", is_number=True),
            Column("ENTRIES", is_number=True),
        ]
        cells = [[Cell(part.name or "-"), _amount(part.amount, unit), Cell(f"{part.entries:,}")] for part in parts]
        output.table(columns, cells)
    for row in lost:
        rest = shown_amount(max(row.amount - row.spent, 0), unit)
        message = f"{rest} of job {encode(row.job_id)}, claim {row.claim}, count as spent: its end was not seen;"
        output.note(f"{message} `budgets settle {encode(row.job_id)} {row.claim}` frees them")


@budgets.command("ledger", examples=("", "ai", "ai --limit 20 --json", "ai -o csv > spent.csv"))
@click.argument("name", required=False, shell_complete=completing.budgets)
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=100, show_default=True, metavar="N", help="How many entries."
)
@click.option("--before", type=int, metavar="ID", help="Only older ones than this entry.")
@listing.form
@click.pass_context
def ledger(ctx: click.Context, *, name: str | None, limit: int, before: int | None, form: listing.Form) -> None:
    """Show what handlers have reported.

    Newest first: of one budget, or all. Entries of a worker that had lost its job are marked as late.
    """

    async def read(session: Session) -> list[LedgerRow]:
        if name is not None:
            await session.client.budget(name)
        return await session.client.ledger(name, limit=limit, before=before)

    rows = with_store(ctx, read)
    shape = budget_shapes.LedgerShape(budget_shapes.ledger(rows))
    ids = [str(row.id) for row in rows]
    listing.write(form, shape, _ENTRIES, [_entry(row) for row in rows], ids=ids, empty="nothing was spent")


@budgets.command("set", examples=("ai '$800' --reason 'the campaign' --actor alice",))
@click.argument("name", shell_complete=completing.budgets)
@click.argument("amount")
@options.reason
@options.actor
@click.pass_context
def set_amount(ctx: click.Context, *, name: str, amount: str, reason: str | None, actor: str | None) -> None:
    """Change how much may be spent.

    For everybody and at once, until `config reset budgets.NAME.amount`. Jobs that wait for the budget go on.
    """

    async def change(session: Session) -> BudgetState:
        await session.client.budget(name)
        await session.client.set_policy(f"budgets.{name}.amount", amount, actor=actor, reason=reason)
        return await session.client.budget(name)

    state = with_store(ctx, change)
    output.line(f"{state.name} has {shown_amount(state.ceiling, state.unit)} a {state.period}")


@budgets.command("settle", examples=("htcx-2s16-z48b-09 1",))
@click.argument("job")
@click.argument("claim", type=int)
@click.pass_context
def settle(ctx: click.Context, *, job: str, claim: int) -> None:
    """Free what was set aside for a lost claim.

    What it has reported stays in the ledger; the rest no longer counts as spent.
    """

    async def change(session: Session) -> bool:
        return await session.client.settle_spend(job, claim)

    if not with_store(ctx, change):
        message = f"settle {job}: nothing is set aside for claim {claim} of it; `budgets show NAME` lists what is"
        raise Refusal(message, Exit.NOT_FOUND, kind="ReservationNotFound")
    output.line(f"{job} is settled")


def _write_states(states: Sequence[BudgetState]) -> None:
    output.table(_STATES, [_state(state) for state in states])


def _state(state: BudgetState) -> list[Cell]:
    return [
        Cell(state.name),
        Cell(state.key),
        _amount(state.spent, state.unit),
        Cell(f"{state.share:.0%}"),
        _amount(state.reserved, state.unit),
        _amount(state.lost, state.unit),
        _amount(state.ceiling, state.unit),
        Cell(f"{state.ends_at:%Y-%m-%d %H:%M}", ages.iso(state.ends_at)),
        Cell(state.level, style=_STYLES[state.level]),
    ]


def _entry(row: LedgerRow) -> list[Cell]:
    amount = shown_amount(row.amount, row.unit)
    values = (row.budget or "", row.kind, row.key, row.actor or "", encode(row.job_id), row.note or "")
    spent = Cell(f"{amount} (late)", style="yellow") if row.is_late else Cell(amount)
    return [Cell(ages.age(row.at, ages.now()), ages.iso(row.at)), spent, *map(Cell, values)]


def _amount(micro: int, unit: str) -> Cell:
    return Cell(shown_amount(micro, unit), f"{Decimal(micro) / MICRO:f}")
