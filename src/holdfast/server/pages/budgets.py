"""The pages of budgets: how far each is, when it will be spent, and by whom."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import get_args

from fastapi import Form, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from holdfast.errors import BudgetNotFound
from holdfast.job import JobState
from holdfast.policies.money import MICRO, amount_text
from holdfast.resources.budget import BudgetInfo
from holdfast.resources.job import Job
from holdfast.server.pages import drawing
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.pages.shown import changed_settings
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted
from holdfast.server.scoped.client import ScopedClient
from holdfast.stores.budgets import By, SpendPoint
from holdfast.stores.values import JobFilter
from holdfast.stores.why import read_budget

routes = Routes("pages", in_schema=False)

_MARKS = (0.5, 0.8, 1.0)
_MOST_KEYS = 100
_MOST_PARTS = 50
_MOST_HELD = 200
_ENTRIES = 30
_STEPS = 60
_LASTS_S = 5.0
_FAR = 10_000  # times the period so far: nothing that a forecast could tell


class Shown:
    """One budget, or one key of it, as the page shows it."""

    def __init__(self, budget: BudgetInfo, now: datetime) -> None:
        self.budget = budget
        self.spent = amount_text(budget.spent, budget.unit)
        self.ceiling = amount_text(budget.ceiling, budget.unit)
        self.reserved = amount_text(budget.reserved, budget.unit)
        self.lost = amount_text(budget.lost, budget.unit)
        self.runs_out_at = forecast(budget, now)

    @property
    def bar(self) -> Markup:
        """Draw how far it is."""
        budget = self.budget
        reserved = budget.reserved / budget.ceiling if budget.ceiling else 0.0
        return drawing.burn(budget.share, reserved, _marks(budget), f"{budget.share:.0%} of {self.ceiling} spent")


def forecast(budget: BudgetInfo, now: datetime) -> datetime | None:
    """When a budget will be spent if it goes on as in this period so far; None when its period ends before."""
    spent, elapsed = budget.spent + budget.lost, now - budget.starts_at
    if spent <= 0 or elapsed.total_seconds() <= 0:
        return None
    if spent >= budget.ceiling:
        return now
    if budget.ceiling / spent > _FAR:
        return None
    runs_out_at = budget.starts_at + elapsed * (budget.ceiling / spent)
    return runs_out_at if runs_out_at < budget.ends_at else None


async def burn_down(client: ScopedClient, shown: Shown, now: datetime) -> Markup:
    """Draw how a budget went down in its period, and where that leads."""
    budget = shown.budget
    length = budget.ends_at - budget.starts_at
    step = length / _STEPS

    async def ask() -> list[SpendPoint]:
        return await client.figures.spend(budget, round(step / timedelta(milliseconds=1)))

    points = await client.recent(("spend", budget.name, budget.key, budget.starts_at), _LASTS_S, ask)
    left = course(points, budget, step, now)
    done = left[-1][0]
    ends = None
    if 0 < done < 1 and 0 < budget.share < 1:
        over = budget.share / done  # of the whole, when the period ends, if it goes on like this
        ends = (done / budget.share, 0.0) if over > 1 else (1.0, 1 - over)
    return drawing.burn_down(left, ends, _marks(budget), f"{1 - budget.share:.0%} of {shown.ceiling} is left")


def course(
    points: Sequence[SpendPoint], budget: BudgetInfo, step: timedelta, now: datetime
) -> list[tuple[float, float]]:
    """Tell what was left as the period went, both as shares: less within each step that has a point, level between."""
    length = budget.ends_at - budget.starts_at
    done = min(max((now - budget.starts_at) / length, 0.0), 1.0)
    left, rest = [(0.0, 1.0)], budget.ceiling
    for point in points:
        began = max((point.at - budget.starts_at) / length, 0.0)
        left.append((min(began, done), left[-1][1]))
        rest -= point.amount / MICRO
        left.append((min(began + step / length, done), rest / budget.ceiling if budget.ceiling else 0.0))
    left.append((done, 1 - budget.share))
    return left


def _marks(budget: BudgetInfo) -> list[float]:
    """The shares at which people look, and those at which something happens."""
    return sorted({*_MARKS, *(threshold.at for threshold in budget.thresholds)})


@routes.get("/budgets", Permission.LOOK, whole=True)
async def budgets_page(request: Request, client: Seen) -> Response:
    """Show how far every budget is."""
    now = datetime.now(UTC)
    found = await client.budgets.list()
    shown = [Shown(budget, now) for budget in found if budget.key is not None]
    unused = [budget for budget in found if budget.key is None]
    shown.sort(key=lambda one: (one.budget.name, -one.budget.share))
    return page(request, "budgets.html", at="budgets", budgets=shown[:_MOST_KEYS], total=len(shown), unused=unused)


@routes.get("/budgets/{name}", Permission.LOOK, whole=True)
async def budget_page(
    request: Request,
    name: str,
    client: Seen,
    by: str = Query("kind", max_length=10),
    key: str = Query("", max_length=600),
) -> Response:
    """Show one budget: who has spent how much, what is in doubt, and which jobs wait for it."""
    found = [budget for budget in await client.budgets.list() if budget.name == name]
    if not found:
        message = f"there is no budget {name}"
        raise BudgetNotFound(message)
    budget = found[0]
    chosen: By = next((known for known in get_args(By) if known == by), "kind")
    now = datetime.now(UTC)
    keys = sorted((Shown(one, now) for one in found if one.key is not None), key=lambda one: -one.budget.share)
    drawn = next((one for one in keys if one.budget.key == key), keys[0] if keys else None)
    parts = await client.recent(
        ("parts", budget.name, chosen), _LASTS_S, lambda: client.budgets.spend(budget.name, chosen)
    )
    return page(
        request,
        "budget.html",
        at="budgets",
        budget=budget,
        keys=keys[:_MOST_KEYS],
        drawn=drawn,
        down=None if drawn is None else await burn_down(client, drawn, now),
        amount=amount_text(budget.ceiling, budget.unit),
        by=chosen,
        bys=get_args(By),
        parts=[(part, amount_text(part.amount, budget.unit)) for part in parts[:_MOST_PARTS]],
        most=max((part.amount for part in parts), default=0),
        held=await _held(client, budget),
        lost=[
            (claim, amount_text(max(claim.estimate - claim.spent, 0), budget.unit))
            for claim in (await client.budgets.lost(budget.name))[:_MOST_PARTS]
        ],
        ledger=[
            (entry, amount_text(entry.amount, entry.unit))
            for entry in (await client.budgets.ledger(budget.name, limit=_ENTRIES)).entries
        ],
        overrides=changed_settings(await client.settings.overrides(), "budgets", budget.name),
    )


@routes.post("/budgets/{name}/set", Permission.CHANGE_SETTINGS, whole=True)
async def set_budget_here(
    request: Request, name: str, client: Seen, amount: str = Form(max_length=60), reason: str = Form("", max_length=500)
) -> Response:
    """Change how much may be spent, for everybody."""
    noted(request, amount=amount, reason=reason or None)
    budget = await client.budgets.set(name, "amount", amount, reason=reason or None)
    return turned(request, url(request, "budgets", budget.name), f"{budget.name} has a new amount")


@routes.post("/budgets/{name}/reset", Permission.CHANGE_SETTINGS, whole=True)
async def reset_budget_here(request: Request, name: str, client: Seen) -> Response:
    """Let a budget be again as apps say."""
    budget = await client.budgets.reset(name, "amount")
    return turned(request, url(request, "budgets", budget.name), f"{budget.name} holds again as apps say")


@routes.post("/budgets/{name}/settle", Permission.SETTLE_BUDGETS, whole=True)
async def settle_budget_here(
    request: Request,
    name: str,
    client: Seen,
    job: str = Form(max_length=40),
    claim: int = Form(ge=0, le=2**31),
) -> Response:
    """Free what was set aside for a job of a lost worker."""
    budget = await client.budgets.get(name)
    known = [lost for lost in await client.budgets.lost(budget.name) if lost.job == job]
    noted(request, job=job, claim=claim)
    if not known or not await client.budgets.settle(job, claim):
        raise not_found("reservation", job)
    return turned(request, url(request, "budgets", budget.name), f"what was set aside for job {job} is free again")


async def _held(client: ScopedClient, budget: BudgetInfo) -> list[Job]:
    """Read jobs that wait for the budget, of the newest that are held back at all."""
    kinds = tuple(budget.kinds)
    which = JobFilter(states=(JobState.HELD,), kinds=kinds, queues=() if budget.queue is None else (budget.queue,))
    if kinds and budget.queue is not None:  # under it are jobs of either
        which = JobFilter(states=(JobState.HELD,))
    found = await client.jobs.list(which, limit=_MOST_HELD)
    return [job for job in found.jobs if read_budget(job.limit_key) == budget.name]
