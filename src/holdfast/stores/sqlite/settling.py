"""How the sums of budgets change on SQLite: reservations that end with their claims, and thresholds that are reached.

SQLite has one writer, so what was read inside the same transaction still holds when it is written.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from holdfast.stores.budgets import SHARE, BudgetRow
from holdfast.stores.sqlite import rows, statements

_MOST_WOKEN = 1_000


class Period(NamedTuple):
    """Names a period of a budget, for one key."""

    budget: str
    key: str
    starts_at: int


class Kept(NamedTuple):
    """What is set aside for a claim: the columns of the query that looks for it."""

    job_id: int
    claim: int
    budget: str
    key: str
    starts_at: int
    queue: str
    amount: int
    spent: int
    state: str

    @property
    def period(self) -> Period:
        """Where it counts."""
        return Period(self.budget, self.key, self.starts_at)

    @property
    def rest(self) -> int:
        """What was set aside and not spent."""
        return max(self.amount - self.spent, 0)


def share_of(ceiling: int, share: int) -> int:
    """How much of a ceiling a threshold is."""
    return ceiling * share // SHARE


def kept_for(connection: sqlite3.Connection, ids: Iterable[int]) -> list[Kept]:
    """Read what is set aside for jobs."""
    return [Kept(*row) for row in statements.fetch(connection, "reserved_for", ids=statements.array(ids))]


def end_reservations(connection: sqlite3.Connection, now: int, ends: dict[tuple[int, int], bool]) -> None:
    """Let what was set aside for claims end with them.

    True for one whose handler came to its end: it has told what it spent, and the rest is free again. Of any other one
    the rest counts as spent, until a late report or somebody tells otherwise.
    """
    if not ends:
        return
    ended: Counter[Period] = Counter()
    for kept in kept_for(connection, (job_id for job_id, _ in ends)):
        is_told = ends.get((kept.job_id, kept.claim))
        if is_told is None or kept.state != "open":
            continue
        if is_told or kept.rest == 0:
            let_go(connection, kept)
        else:
            change(connection, kept.period, reserved=-kept.rest, lost=kept.rest)
            statements.change(connection, "lose_reserved", job_id=kept.job_id, claim=kept.claim)
            note_alerts(connection, now, kept.period, kept.queue)
        ended[kept.period] += 1
    for period, claims in ended.items():
        find_room(connection, now, period, claims)


def find_room(connection: sqlite3.Connection, now: int, period: Period, claims: int) -> None:
    """Let as many jobs look again as have ended; after the last one nobody else would let the others know."""
    _, reserved, _, _ = sums_of(connection, period, period.starts_at)
    limit = claims if reserved else _MOST_WOKEN
    statements.change(connection, "find_room", budget=period.budget, limit=limit, now=now)


def let_go(connection: sqlite3.Connection, kept: Kept) -> None:
    """Free what was set aside and not spent."""
    where = "reserved" if kept.state == "open" else "lost"
    change(connection, kept.period, **{where: -kept.rest})
    statements.change(connection, "settle_spend", job_id=kept.job_id, claim=kept.claim)


def change(connection: sqlite3.Connection, period: Period, spent: int = 0, reserved: int = 0, lost: int = 0) -> None:
    """Add to the sums of a period."""
    statements.change(connection, "change_period", **period._asdict(), spent=spent, reserved=reserved, lost=lost)


def sums_of(connection: sqlite3.Connection, period: Period, ends_at: int) -> tuple[int, int, int, list[int]]:
    """Read how far a period has come: spent, reserved, lost, and the thresholds that were told of."""
    ((spent, reserved, lost, alerts),) = statements.fetch(
        connection, "open_period", **period._asdict(), ends_at=ends_at
    )
    return spent, reserved, lost, msgspec.json.decode(alerts, type=list[int])


def read_budget(connection: sqlite3.Connection, name: str) -> BudgetRow | None:
    """Read one budget."""
    found = statements.fetch(connection, "read_budgets", name=name)
    return budget(found[0]) if found else None


def budget(row: tuple[Any, ...]) -> BudgetRow:
    """Read a row of a budget."""
    lists = [msgspec.json.decode(text) for text in row[-3:]]
    fields = dict(zip(BudgetRow.__struct_fields__, (*row[:-3], *lists), strict=True))
    return msgspec.convert(fields, BudgetRow)


def note_alerts(
    connection: sqlite3.Connection, now: int, period: Period, queue: str, blocked: int | None = None
) -> None:
    """Tell of the thresholds that a period has reached, each once.

    What is spent or lost counts. `blocked` is the share of the threshold that has kept a job out: before the last alert
    up to it is reached, that is told of too. It is remembered by the negative of the share.
    """
    held = read_budget(connection, period.budget)
    if held is None:
        return
    spent, reserved, lost, told = sums_of(connection, period, period.starts_at)
    alerts = {share for share, action in held.thresholds if action == "alert"}
    reached = {share for share in alerts if spent + lost >= share_of(held.ceiling, share)}
    last = max((share for share in alerts if blocked is not None and share <= blocked), default=None)
    kept_out = set() if last is None or last in reached else {-last}
    for share in sorted((reached | kept_out).difference(told)):
        percent = share / 10_000 if share in reached else (spent + lost) * 100 // held.ceiling
        title = f"budget {period.budget}{period.key and f' of {period.key}'} has reached {percent:g} %"
        if share in kept_out and blocked is not None:
            title += f" and keeps jobs out that do not fit below {blocked / 10_000:g} %"
        details = {
            "budget": period.budget,
            "key": period.key,
            "share": percent / 100,
            "unit": held.unit,
            "spent": spent,
            "reserved": reserved,
            "lost": lost,
            "ceiling": held.ceiling,
            "period_starts": rows.moment(period.starts_at),
        }
        statements.change(
            connection,
            "tell_alert",
            **period._asdict(),
            share=share,
            now=now,
            queue=queue,
            fingerprint=f"{period.budget}:{period.key}:{share}",
            title=title,
            details=msgspec.json.encode(details).decode(),
        )
