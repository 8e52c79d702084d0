"""Budgets: how far they are, who has spent what, and what is in doubt."""

from typing import Annotated, Literal

from fastapi import Path, Query, Request

from holdfast.server.api.budget_shapes import (
    BudgetList,
    BudgetShape,
    Ledger,
    LostList,
    Settle,
    Settled,
    Spending,
    budget_shape,
    entry_shape,
    lost_shape,
    part_shape,
)
from holdfast.server.api.parameters import NAME, Before, Instant, Limit, as_number, next_before
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted

routes = Routes("budgets", "/budgets")

Name = Annotated[str, Path(max_length=NAME, examples=["ai"], description="The name of a budget.")]


@routes.get("", Permission.LOOK, whole=True, summary="List budgets")
async def list_budgets(sight: Seen) -> BudgetList:
    """Read how far every budget is; of one that is divided by a key, the first 1,000 keys of this period."""
    return BudgetList(budgets=[budget_shape(state) for state in await sight.client.budgets()])


@routes.get("/{name}", Permission.LOOK, whole=True, summary="Read a budget")
async def read_budget(
    name: Name,
    sight: Seen,
    key: Annotated[
        str | None, Query(max_length=512, examples=["tenant-7"], description="Of a budget that is divided by a key.")
    ] = None,
) -> BudgetShape:
    """Read how far one budget is, for one key if it is divided by one."""
    return budget_shape(await sight.client.budget(name, key))


@routes.get("/{name}/spend", Permission.LOOK, whole=True, summary="Break down what was spent")
async def read_spend(
    name: Name,
    sight: Seen,
    by: Annotated[
        Literal["kind", "key", "actor", "queue"], Query(examples=["kind"], description="What it is broken down by.")
    ] = "kind",
    at: Annotated[
        Instant | None,
        Query(examples=["2026-11-16T09:30:00Z"], description="A time in the period that is asked for; now."),
    ] = None,
) -> Spending:
    """Sum what was spent in a period by kind, key, actor or queue, the largest first."""
    parts = await sight.client.spend_by(name, by, at=at)
    return Spending(by=by, parts=[part_shape(part) for part in parts])


@routes.get("/{name}/ledger", Permission.LOOK, whole=True, summary="Read the ledger of a budget")
async def read_ledger(name: Name, sight: Seen, limit: Limit = 100, before: Before = None) -> Ledger:
    """Read what handlers have reported, the newest first."""
    await sight.client.budget(name)
    rows = await sight.client.ledger(name, limit=limit, before=as_number(before))
    return Ledger(
        entries=[entry_shape(row) for row in rows],
        next=next_before(len(rows), limit, rows[-1].id if rows else None),
    )


@routes.get("/{name}/lost", Permission.LOOK, whole=True, summary="Read what is in doubt")
async def read_lost(name: Name, sight: Seen) -> LostList:
    """Read what was set aside for jobs whose end nobody saw, and counts as spent; at most 1,000."""
    return LostList(lost=[lost_shape(row) for row in await sight.client.lost_spend(name)])


@routes.post("/{name}/settle", Permission.SETTLE_BUDGETS, whole=True, summary="Settle what is in doubt")
async def settle_spend(name: Name, asked: Settle, sight: Seen, request: Request) -> Settled:
    """Free what was set aside for a claim and was not spent after all."""
    noted(request, job=asked.job, claim=asked.claim)
    await sight.client.budget(name)
    return Settled(settled=await sight.client.settle_spend(asked.job, asked.claim))
