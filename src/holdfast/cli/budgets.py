"""`holdfast budgets list|show|spend|lost|ledger|set|settle`."""

from decimal import Decimal
from typing import get_args

import click

from holdfast import ages
from holdfast.cli import completing, listing, options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.exits import Exit, Refusal
from holdfast.cli.grammar import Noun
from holdfast.cli.output import Cell
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.policies.allowance import Level
from holdfast.policies.money import MICRO, amount_text
from holdfast.resources.budget import (
    BudgetInfo,
    BudgetList,
    LedgerEntry,
    LostList,
    LostSpend,
    Spending,
    SpendPart,
)
from holdfast.stores.budgets import By

_STYLES: dict[Level, str] = {
    "normal": "green",
    "alert": "yellow",
    "reduce": "yellow",
    "defer": "red",
    "stop": "red",
}


def _amount(amount: float, unit: str) -> Cell:
    return Cell(amount_text(amount, unit), f"{Decimal(round(amount * MICRO)) / MICRO:f}")


def _reported(entry: LedgerEntry) -> Cell:
    amount = amount_text(entry.amount, entry.unit)
    return Cell(f"{amount} (late)", style="yellow") if entry.late else Cell(amount)


_BUDGETS = ResourceTable[BudgetInfo](
    Attribute("BUDGET", lambda budget: budget.name, is_flexible=True),
    Attribute("KEY", lambda budget: budget.key, is_flexible=True),
    Attribute("SPENT", lambda budget: _amount(budget.spent, budget.unit), is_number=True),
    Attribute("SHARE", lambda budget: f"{budget.share:.0%}", is_number=True),
    Attribute("RESERVED", lambda budget: _amount(budget.reserved, budget.unit), is_number=True),
    Attribute("LOST", lambda budget: _amount(budget.lost, budget.unit), is_number=True),
    Attribute("CEILING", lambda budget: _amount(budget.ceiling, budget.unit), is_number=True),
    Attribute("UNTIL", lambda budget: Cell(f"{budget.ends_at:%Y-%m-%d %H:%M}", ages.iso(budget.ends_at))),
    Attribute("LEVEL", lambda budget: Cell(budget.level, style=_STYLES[budget.level])),
)
_ENTRIES = ResourceTable[LedgerEntry](
    Attribute("TIME", lambda entry: entry.at),
    Attribute("AMOUNT", _reported, is_number=True),
    Attribute("BUDGET", lambda entry: entry.budget, is_flexible=True),
    Attribute("KIND", lambda entry: entry.kind, is_flexible=True),
    Attribute("KEY", lambda entry: entry.key, is_flexible=True),
    Attribute("ACTOR", lambda entry: entry.actor, is_flexible=True),
    Attribute("JOB", lambda entry: entry.job),
    Attribute("NOTE", lambda entry: entry.note, is_flexible=True),
)


def _lost(unit: str) -> ResourceTable[LostSpend]:
    return ResourceTable(
        Attribute("JOB", lambda claim: claim.job),
        Attribute("CLAIM", lambda claim: claim.claim, is_number=True),
        Attribute("KEY", lambda claim: claim.key, is_flexible=True),
        Attribute("ESTIMATE", lambda claim: _amount(claim.estimate, unit), is_number=True),
        Attribute("SPENT", lambda claim: _amount(claim.spent, unit), is_number=True),
        Attribute("SINCE", lambda claim: claim.reserved_at),
    )


def _parts(by: By, unit: str) -> ResourceTable[SpendPart]:
    return ResourceTable(
        Attribute(by.upper(), lambda part: part.name or "-", is_flexible=True),
        Attribute("SPENT", lambda part: _amount(part.amount, unit), is_number=True),
        Attribute("ENTRIES", lambda part: f"{part.entries:,}", is_number=True),
    )


@click.group("budgets", cls=Noun, examples=("list", "show ai --by actor", "ledger ai", "set ai '$800'"))
def budgets() -> None:
    """Look at what jobs spend, and change how much they may."""


@budgets.command("list", examples=("", "-o csv", "--json"))
@listing.form
@click.pass_context
def list_budgets(ctx: click.Context, *, form: listing.Form) -> None:
    """List the budgets.

    What was spent in the period so far, what is set aside for jobs that run, and what was set aside for jobs of lost
    workers, which counts as spent. A budget that is divided by a key has a line for each key of this period.
    """
    found = with_store(ctx, lambda session: session.client.budgets.list())
    listing.write(form, BudgetList(budgets=found), *_BUDGETS.of(found), empty="no budget holds")


@budgets.command("show", examples=("ai", "ai --by actor", "tenants --key acme --json"))
@click.argument("name", shell_complete=completing.budgets)
@click.option("--key", help="Only this key of it.")
@click.option("--by", type=click.Choice(get_args(By)), default="kind", help="What to break it down by.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, *, name: str, key: str | None, by: By, as_json: bool) -> None:
    """Show one budget.

    How much of it is spent, who has spent how much in this period, and what is in doubt. JSON has the budget alone: see
    `budgets spend` and `budgets lost`.
    """

    async def read(session: Session) -> tuple[BudgetInfo, list[BudgetInfo], list[SpendPart], list[LostSpend]]:
        client = session.client.budgets
        budget = await client.get(name, key)
        if as_json:
            return budget, [], [], []
        keys = [other for other in await client.list() if other.name == budget.name and key in (None, other.key)]
        return budget, keys, await client.spend(name, by), await client.lost(name)

    budget, keys, parts, lost = with_store(ctx, read)
    if as_json:
        output.write_json(budget)
        return
    output.table(*_BUDGETS.of(keys or [budget]))
    if parts:
        output.line("")
        output.table(*_parts(by, budget.unit).of(parts))
    for claim in lost:
        rest = amount_text(max(claim.estimate - claim.spent, 0), budget.unit)
        message = f"{rest} of job {claim.job}, claim {claim.claim}, count as spent: its worker was lost;"
        output.note(f"{message} `budgets settle {claim.job} {claim.claim}` frees them")


@budgets.command("spend", examples=("ai", "ai --by actor --json"))
@click.argument("name", shell_complete=completing.budgets)
@click.option("--by", type=click.Choice(get_args(By)), default="kind", help="What to break it down by.")
@listing.form
@click.pass_context
def spend(ctx: click.Context, *, name: str, by: By, form: listing.Form) -> None:
    """Break down what was spent in this period.

    By kind, key, actor or queue, the largest first.
    """

    async def read(session: Session) -> tuple[str, list[SpendPart]]:
        client = session.client.budgets
        return (await client.get(name)).unit, await client.spend(name, by)

    unit, parts = with_store(ctx, read)
    listing.write(form, Spending(by=by, parts=parts), *_parts(by, unit).of(parts), empty="nothing was spent")


@budgets.command("lost", examples=("ai", "ai --json"))
@click.argument("name", shell_complete=completing.budgets)
@listing.form
@click.pass_context
def lost(ctx: click.Context, *, name: str, form: listing.Form) -> None:
    """List what is in doubt.

    What was set aside for jobs of lost workers: the rest counts as spent until `budgets settle` frees it.
    """

    async def read(session: Session) -> tuple[str, list[LostSpend]]:
        client = session.client.budgets
        return (await client.get(name)).unit, await client.lost(name)

    unit, found = with_store(ctx, read)
    listing.write(form, LostList(lost=found), *_lost(unit).of(found), empty="nothing is in doubt")


@budgets.command("ledger", examples=("", "ai", "ai --limit 20 --json", "ai -o csv > spent.csv"))
@click.argument("name", required=False, shell_complete=completing.budgets)
@options.number("--limit", 100, "How many entries.")
@click.option("--before", metavar="ID", help="Only older ones than this entry.")
@listing.form
@click.pass_context
def ledger(ctx: click.Context, *, name: str | None, limit: int, before: str | None, form: listing.Form) -> None:
    """Show what handlers have reported.

    Newest first: of one budget, or all. Entries of a worker that had lost its job are marked as late.
    """
    found = with_store(ctx, lambda session: session.client.budgets.ledger(name, limit=limit, before=before))
    ids = [entry.id for entry in found.entries]
    listing.write(form, found, *_ENTRIES.of(found.entries), ids=ids, empty="nothing was spent")


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
    budget = with_store(
        ctx, lambda session: session.client.budgets.set(name, "amount", amount, actor=actor, reason=reason)
    )
    output.line(f"{budget.name} has {amount_text(budget.ceiling, budget.unit)} a {budget.period}")


@budgets.command("settle", examples=("htcx-2s16-z48b-09 1",))
@click.argument("job")
@click.argument("claim", type=int)
@click.pass_context
def settle(ctx: click.Context, *, job: str, claim: int) -> None:
    """Free what was set aside for a lost claim.

    What it has reported stays in the ledger; the rest no longer counts as spent.
    """
    if not with_store(ctx, lambda session: session.client.budgets.settle(job, claim)):
        message = f"settle {job}: nothing is set aside for claim {claim} of it; `budgets show NAME` lists what is"
        raise Refusal(message, Exit.NOT_FOUND, kind="ReservationNotFound")
    output.line(f"{job} is settled")
