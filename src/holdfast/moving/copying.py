"""Copying tables page by page: each page and how far it brings the move are one commit of the target."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from holdfast import moments
from holdfast.errors import Conflict
from holdfast.moving.comparing import differences
from holdfast.moving.sides import Side
from holdfast.public_id import LARGEST
from holdfast.stores.moving import (
    ALARMS,
    AUDIT,
    BATCH,
    BULK_RUNS,
    DEAD_LETTERS,
    DELIVERIES,
    ESCALATIONS,
    HISTORY,
    JOBS,
    LIVE_BULK_RUNS,
    NAMED,
    NOTICES,
    OPEN_ESCALATIONS,
    PARTS,
    PENDING_DELIVERIES,
    PENDING_NOTICES,
    POLICY_STATES,
    READY,
    RETENTION_DUE,
    ROLLUPS,
    TOKENS,
    WAITING,
    Move,
    MoveProgress,
    Release,
    Row,
    Table,
)

_SHOWN = 20
_COMPARED = "compared"
_MILLISECOND = 1_000  # in microseconds: the finest that every store keeps
Tell = Callable[[str, int], None]


def staged_tables(move: Move) -> tuple[Table, ...]:
    """What is copied and compared before the source is given up, and waits on the target until then."""
    return (JOBS, *PARTS, HISTORY) if move.with_history else (JOBS, *PARTS)


def settled_tables(move: Move) -> tuple[Table, ...]:
    """What takes effect as soon as it is there, and so comes after the source was given up."""
    if move.with_history:
        return (*NAMED, TOKENS, *DEAD_LETTERS, DELIVERIES, RETENTION_DUE, ROLLUPS, AUDIT)
    return (*NAMED, TOKENS, PENDING_DELIVERIES)


def following_tables(move: Move) -> tuple[Table, ...]:
    """What acts on jobs and tells of them, and so comes when those may be worked."""
    if move.with_history:
        return (POLICY_STATES, ESCALATIONS, NOTICES, ALARMS, BULK_RUNS)
    return (POLICY_STATES, OPEN_ESCALATIONS, PENDING_NOTICES, ALARMS, LIVE_BULK_RUNS)


def numbered(table: Table, row: Row, shifts: Mapping[str, int]) -> Row:
    """Give a row the number that is kept free for it, and let it say the same where times are coarser."""
    if table.name not in shifts:
        return row
    given = {**row, "id": row["id"] + shifts[table.name]}
    if table.name == ESCALATIONS.name:  # this time is part of the name by which pagers know it, rounded
        given["first_at"] = round(row["first_at"] / _MILLISECOND) * _MILLISECOND
    if table.name == NOTICES.name and row["escalation"] is not None:
        given["escalation"] = row["escalation"] + shifts[ESCALATIONS.name]
    if table.name == BULK_RUNS.name and row["cursor_at"] is not None and row["cursor_at"] % _MILLISECOND:
        given["cursor_id"] = LARGEST  # jobs of this millisecond may come in another order: all are looked at again
    return given


def staged(move: Move, table: Table, row: Row) -> Row:
    """Make of a row what waits on the target: a live job that nobody takes, marked as a copy of this move."""
    if table.name == JOBS.name:
        # guard: staged-copy, without: return {**row, "claim_batch": move.batch}
        return {**row, "state": "blocked", "position": None, "claim_batch": move.batch}
    return {**row, "claim_batch": move.batch} if table.name == HISTORY.name else row


class Copy:
    """One move between two stores, and how far it has come."""

    def __init__(self, source: Side, target: Side, move: Move, progress: MoveProgress, tell: Tell) -> None:
        self.source = source
        self.target = target
        self.move = move
        self.progress = progress
        self._tell = tell

    async def stage(self) -> None:
        """Copy what waits on the target, from where the progress stands."""
        if self.progress.step == _COMPARED:
            return
        for table in self._left(staged_tables(self.move)):
            async for rows, after in self._pages(table):
                copies = [staged(self.move, table, row) for row in rows]
                await self.target.put_rows(table, copies, self._next(table, after, len(rows)))
                moments.reach("move_staged")

    async def rehearse(self) -> None:
        """Write what is to be settled, read it, and roll it back: after the source is given up none may be refused."""
        while await self.source.fold_failures(BATCH):  # groups are copied, and nothing fails here any more
            pass
        await self._take_numbers()
        for table in (*settled_tables(self.move), *following_tables(self.move)):
            async for found, _ in _pages_of(self.source, table):
                rows = self._numbered(table, found)
                there = await self.target.put_rows(table, rows, self.progress, is_rehearsal=True)
                if table.name == ESCALATIONS.name:  # one that is open there too comes as a closed one
                    _refuse_differences(table, _keys(table, rows), _keys(table, there))
                elif table not in (*NAMED, TOKENS, *DEAD_LETTERS, POLICY_STATES) and table.key:
                    _refuse_differences(table, rows, there)

    async def compare(self) -> None:
        """Read every page of both sides again, and refuse the move if a row is missing or differs."""
        for table in staged_tables(self.move):
            seen = 0
            async for rows, _ in _pages_of(self.source, table):
                copies = [staged(self.move, table, row) for row in rows]
                _refuse_differences(table, copies, await self.target.same_rows(table, copies))
                seen += len(rows)
                self._tell(f"compared {table.title}", seen)
        # The last word before the source is given up, which only the process has that nobody has replaced.
        self.progress = msgspec.structs.replace(self.progress, step=_COMPARED, after=None)
        await self.target.put_rows(JOBS, [], self.progress)

    async def settle(self) -> None:
        """Copy what takes effect at once, let the copied jobs be worked, then copy what follows them."""
        await self._take_numbers()
        for table in self._left((*settled_tables(self.move), READY, WAITING, *following_tables(self.move))):
            async for rows, after in self._pages(table):
                progress = self._next(table, after, len(rows))
                if table in (READY, WAITING):
                    releases = [Release(row["id"], row["state"], row["claim_batch"]) for row in rows]
                    await self.target.release_jobs(releases, progress)
                else:
                    await self.target.put_rows(table, self._numbered(table, rows), progress)
                moments.reach("move_settled")

    async def _take_numbers(self) -> None:
        """Keep numbers free on the target, once: the source is closed, and has all that it will ever have."""
        if self.progress.shifts is None:
            self.progress = await self.target.take_numbers(await self.source.last_numbers(), self.progress)

    def _numbered(self, table: Table, rows: Sequence[Row]) -> list[Row]:
        return [numbered(table, row, self.progress.shifts or {}) for row in rows]

    def _left(self, tables: Sequence[Table]) -> Sequence[Table]:
        """Leave out what earlier runs have done; the table they were at is begun where they stopped."""
        titles = [table.title for table in tables]
        return tables[titles.index(self.progress.step) :] if self.progress.step in titles else tables

    async def _pages(self, table: Table) -> AsyncIterator[tuple[list[Row], list[object]]]:
        after = self.progress.after if self.progress.step == table.title else None
        async for page in _pages_of(self.source, table, after):
            yield page

    def _next(self, table: Table, after: list[object], rows: int) -> MoveProgress:
        counts = {**self.progress.counts, table.title: self.progress.counts.get(table.title, 0) + rows}
        self.progress = msgspec.structs.replace(self.progress, step=table.title, after=after, counts=counts)
        self._tell(table.title, counts[table.title])
        return self.progress


async def _pages_of(
    source: Side, table: Table, after: list[object] | None = None
) -> AsyncIterator[tuple[list[Row], list[object]]]:
    while True:
        rows, after = await source.read_page(table, after)
        if after is None:
            return
        yield rows, after


def _keys(table: Table, rows: Sequence[Row]) -> list[Row]:
    return [{name: row[name] for name in table.key} for row in rows]


def _refuse_differences(table: Table, sent: Sequence[Row], found: Sequence[Row]) -> None:
    lines = differences(table, sent, found)
    if lines:  # guard: copied-differences
        message = f"the target does not hold what was copied; nothing was given up. Of {table.name}: "
        message += "; ".join(lines[:_SHOWN])
        message += f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        message += ". Look what holds the same key there, then run the command again, or reopen the source with --abort"
        raise Conflict(message)
