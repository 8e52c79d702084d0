"""Budgets: how far they are, who has spent what, and what is in doubt."""

from typing import Annotated

from fastapi import Path, Query, Request

from holdfast.client.in_force import CHANGEABLE
from holdfast.resources.budget import (
    BudgetInfo,
    BudgetList,
    LedgerPage,
    LostList,
    Settlement,
    SettleRequest,
    Spending,
)
from holdfast.resources.queue import SettingRequest
from holdfast.resources.request import Instant
from holdfast.server.api.parameters import NAME, Before, Limit
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.stores.budgets import By

routes = Routes("budgets", "/budgets")

Name = Annotated[str, Path(max_length=NAME, examples=["ai"], description="The name of a budget.")]


Key = Annotated[
    str | None, Query(max_length=512, examples=["tenant-7"], description="Of a budget that is divided by a key.")
]
SettingName = Annotated[
    str, Path(max_length=NAME, examples=["amount"], description=f"One of {', '.join(CHANGEABLE['budgets'])}.")
]


@routes.get("", Permission.LOOK, whole=True, summary="List budgets")
async def list_budgets(client: Seen) -> BudgetList:
    """Read every budget; one that is divided by a key once for each of the first 1,000 keys of this period."""
    return BudgetList(budgets=await client.budgets.list())


@routes.get("/{name}", Permission.LOOK, whole=True, summary="Read a budget")
async def read_budget(name: Name, client: Seen, key: Key = None) -> BudgetInfo:
    """Read one budget, under one key if it is divided by one."""
    return await client.budgets.get(name, key)


@routes.put("/{name}/settings/{field}", Permission.CHANGE_SETTINGS, whole=True, summary="Set a setting of a budget")
async def set_budget(
    name: Name, field: SettingName, asked: SettingRequest, client: Seen, request: Request
) -> BudgetInfo:
    """Change a setting of a budget for all apps, until it is reset; jobs that wait for the budget go on."""
    noted(request, budget=name, value=asked.value, reason=asked.reason)
    return await client.budgets.set(name, field, asked.value, reason=asked.reason)


@routes.delete(
    "/{name}/settings/{field}", Permission.CHANGE_SETTINGS, whole=True, summary="Reset a setting of a budget"
)
async def reset_budget(name: Name, field: SettingName, client: Seen, request: Request) -> BudgetInfo:
    """Let a setting of a budget be again what apps and their configuration say."""
    noted(request, budget=name)
    return await client.budgets.reset(name, field)


@routes.get("/{name}/spend", Permission.LOOK, whole=True, summary="Break down what was spent")
async def read_spend(
    name: Name,
    client: Seen,
    by: Annotated[By, Query(examples=["kind"], description="What it is broken down by.")] = "kind",
    at: Annotated[
        Instant | None,
        Query(examples=["2026-11-16T09:30:00Z"], description="A time in the period that is asked for; now."),
    ] = None,
) -> Spending:
    """Sum what was spent in a period by kind, key, actor or queue, the largest first."""
    return Spending(by=by, parts=await client.budgets.spend(name, by, at=at))


@routes.get("/{name}/ledger", Permission.LOOK, whole=True, summary="Read the ledger of a budget")
async def read_ledger(name: Name, client: Seen, limit: Limit = 100, before: Before = None) -> LedgerPage:
    """Read what handlers have reported, the newest first."""
    return await client.budgets.ledger(name, limit=limit, before=before)


@routes.get("/{name}/lost", Permission.LOOK, whole=True, summary="Read what is in doubt")
async def read_lost(name: Name, client: Seen) -> LostList:
    """Read what was set aside for jobs of lost workers, and counts as spent; at most 1,000."""
    return LostList(lost=await client.budgets.lost(name))


@routes.post("/{name}/settle", Permission.SETTLE_BUDGETS, whole=True, summary="Settle what is in doubt")
async def settle_spend(name: Name, asked: SettleRequest, client: Seen, request: Request) -> Settlement:
    """Free what was set aside for a claim and was not spent."""
    noted(request, job=asked.job, claim=asked.claim)
    await client.budgets.get(name)
    return Settlement(settled=await client.budgets.settle(asked.job, asked.claim))
