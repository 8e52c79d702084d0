"""The pages of budgets: how far each is, when it will be spent, and by whom."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import get_args

from fastapi import Form, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from holdfast import public_id
from holdfast.client.budgets import BudgetState
from holdfast.client.in_force import changes_of
from holdfast.job import Job, JobState
from holdfast.policies.money import shown_amount
from holdfast.server.pages import drawing
from holdfast.server.pages.recent import recent
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted
from holdfast.server.sight import Sight
from holdfast.stores.budgets import SHARE, BudgetRow, By, SpendPoint
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

    def __init__(self, state: BudgetState, row: BudgetRow, now: datetime) -> None:
        self.state = state
        self.row = row
        self.spent = shown_amount(state.spent, state.unit)
        self.ceiling = shown_amount(state.ceiling, state.unit)
        self.reserved = shown_amount(state.reserved, state.unit)
        self.lost = shown_amount(state.lost, state.unit)
        self.runs_out_at = forecast(state, now)

    @property
    def bar(self) -> Markup:
        """Draw how far it is."""
        state = self.state
        reserved = state.reserved / state.ceiling if state.ceiling else 0.0
        return drawing.burn(state.share, reserved, _marks(self.row), f"{state.share:.0%} of {self.ceiling} spent")


def forecast(state: BudgetState, now: datetime) -> datetime | None:
    """When a budget will be spent if it goes on as in this period so far; None when its period ends before."""
    spent, elapsed = state.spent + state.lost, now - state.starts_at
    if spent <= 0 or elapsed.total_seconds() <= 0:
        return None
    if spent >= state.ceiling:
        return now
    if state.ceiling / spent > _FAR:
        return None
    runs_out_at = state.starts_at + elapsed * (state.ceiling / spent)
    return runs_out_at if runs_out_at < state.ends_at else None


async def burn_down(sight: Sight, shown: Shown, now: datetime) -> Markup:
    """Draw how a budget went down in its period, and where that leads."""
    state = shown.state
    length = state.ends_at - state.starts_at
    step = length / _STEPS

    async def ask() -> list[SpendPoint]:
        return await sight.store.spend_series(
            state.name, state.key, state.starts_at, state.ends_at, round(step / timedelta(milliseconds=1))
        )

    points = await recent(sight.store, ("spend", state.name, state.key, state.starts_at), _LASTS_S, ask)
    left = course(points, state, step, now)
    done = left[-1][0]
    ends = None
    if 0 < done < 1 and 0 < state.share < 1:
        over = state.share / done  # of the whole, when the period ends, if it goes on like this
        ends = (done / state.share, 0.0) if over > 1 else (1.0, 1 - over)
    return drawing.burn_down(left, ends, _marks(shown.row), f"{1 - state.share:.0%} of {shown.ceiling} is left")


def course(
    points: Sequence[SpendPoint], state: BudgetState, step: timedelta, now: datetime
) -> list[tuple[float, float]]:
    """Tell what was left as the period went, both as shares: less within each step that has a point, level between."""
    length = state.ends_at - state.starts_at
    done = min(max((now - state.starts_at) / length, 0.0), 1.0)
    left, rest = [(0.0, 1.0)], float(state.ceiling)
    for point in points:
        began = max((point.at - state.starts_at) / length, 0.0)
        left.append((min(began, done), left[-1][1]))
        rest -= point.amount
        left.append((min(began + step / length, done), rest / state.ceiling if state.ceiling else 0.0))
    left.append((done, 1 - state.share))
    return left


def _marks(row: BudgetRow) -> list[float]:
    """The shares at which people look, and those at which something happens."""
    return sorted({*_MARKS, *(share / SHARE for share, _ in row.thresholds)})


@routes.get("/budgets", Permission.LOOK, whole=True)
async def budgets_page(request: Request, sight: Seen) -> Response:
    """Show how far every budget is."""
    rows = {row.name: row for row in (await sight.store.read_budgets())[1]}
    now = datetime.now(UTC)
    shown = [Shown(state, rows[state.name], now) for state in await sight.client.budgets() if state.name in rows]
    unused = [row for row in rows.values() if all(one.row.name != row.name for one in shown)]
    shown.sort(key=lambda one: (one.state.name, -one.state.share))
    return page(request, "budgets.html", at="budgets", budgets=shown[:_MOST_KEYS], total=len(shown), unused=unused)


@routes.get("/budgets/{name}", Permission.LOOK, whole=True)
async def budget_page(
    request: Request,
    name: str,
    sight: Seen,
    by: str = Query("kind", max_length=10),
    key: str = Query("", max_length=600),
) -> Response:
    """Show one budget: who has spent how much, what is in doubt, and which jobs wait for it."""
    row = await _row(sight, name)
    chosen: By = next((known for known in get_args(By) if known == by), "kind")
    now = datetime.now(UTC)
    states = [state for state in await sight.client.budgets() if state.name == row.name]
    keys = sorted((Shown(state, row, now) for state in states), key=lambda one: -one.state.share)
    drawn = next((one for one in keys if one.state.key == key), keys[0] if keys else None)
    parts = await recent(
        sight.store, ("parts", row.name, chosen), _LASTS_S, lambda: sight.client.spend_by(row.name, chosen)
    )
    prefix = f"budgets.{row.name}."
    return page(
        request,
        "budget.html",
        at="budgets",
        row=row,
        keys=keys[:_MOST_KEYS],
        drawn=drawn,
        down=None if drawn is None else await burn_down(sight, drawn, now),
        thresholds=[(share / SHARE, action) for share, action in row.thresholds],
        amount=shown_amount(row.ceiling, row.unit),
        by=chosen,
        bys=get_args(By),
        parts=[(part, shown_amount(part.amount, row.unit)) for part in parts[:_MOST_PARTS]],
        most=max((part.amount for part in parts), default=0),
        held=await _held(sight, row),
        lost=[
            (lost, public_id.encode(lost.job_id), shown_amount(max(lost.amount - lost.spent, 0), row.unit))
            for lost in (await sight.client.lost_spend(row.name))[:_MOST_PARTS]
        ],
        ledger=[
            (entry, public_id.encode(entry.job_id), shown_amount(entry.amount, entry.unit))
            for entry in await sight.client.ledger(row.name, limit=_ENTRIES)
        ],
        overrides=changes_of(await sight.client.overrides(), "budgets", row.name),
        prefix=prefix,
    )


@routes.post("/budgets/{name}/set", Permission.CHANGE_SETTINGS, whole=True)
async def set_budget_here(
    request: Request,
    *,
    name: str,
    sight: Seen,
    who: Who,
    amount: str = Form(max_length=60),
    reason: str = Form("", max_length=500),
) -> Response:
    """Change how much may be spent, for everybody."""
    row = await _row(sight, name)
    noted(request, amount=amount, reason=reason or None)
    await sight.client.set_policy(f"budgets.{row.name}.amount", amount, actor=who.name, reason=reason or None)
    return turned(request, url(request, "budgets", row.name), f"{row.name} has a new amount")


@routes.post("/budgets/{name}/reset", Permission.CHANGE_SETTINGS, whole=True)
async def reset_budget_here(request: Request, name: str, sight: Seen) -> Response:
    """Let a budget be again as programs say."""
    row = await _row(sight, name)
    await sight.client.reset_policy(f"budgets.{row.name}.amount")
    return turned(request, url(request, "budgets", row.name), f"{row.name} holds again as programs say")


@routes.post("/budgets/{name}/settle", Permission.SETTLE_BUDGETS, whole=True)
async def settle_budget_here(
    request: Request,
    name: str,
    sight: Seen,
    job: str = Form(max_length=40),
    claim: int = Form(ge=0, le=2**31),
) -> Response:
    """Free what was set aside for a job whose end nobody saw."""
    row = await _row(sight, name)
    known = [lost for lost in await sight.client.lost_spend(row.name) if public_id.encode(lost.job_id) == job]
    noted(request, job=job, claim=claim)
    if not known or not await sight.client.settle_spend(job, claim):
        raise not_found("reservation", job)
    return turned(request, url(request, "budgets", row.name), f"what was set aside for job {job} is free again")


async def _row(sight: Sight, name: str) -> BudgetRow:
    _, rows = await sight.store.read_budgets()
    for row in rows:
        if row.name == name:
            return row
    raise not_found("budget", name)


async def _held(sight: Sight, row: BudgetRow) -> list[Job]:
    """Read jobs that wait for the budget, of the newest that are held back at all."""
    which = JobFilter(states=(JobState.HELD,), kinds=row.kinds, queues=() if row.queue is None else (row.queue,))
    if row.kinds and row.queue is not None:  # under it are jobs of either
        which = JobFilter(states=(JobState.HELD,))
    found = await sight.client.list(which, limit=_MOST_HELD)
    return [job for job in found.jobs if read_budget(job.limit_key) == row.name]
