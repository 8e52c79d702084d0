"""What those who watch hear of, on PostgreSQL."""

import asyncio
from collections.abc import Sequence

import msgspec

from holdfast.events import EventRow, EventType
from holdfast.stores.postgres import rows
from holdfast.stores.postgres.role import Role
from holdfast.stores.values import Horizon

_LOOK_S = 0.02


class PostgresEvents(Role):
    """The verbs of `EventStore`."""

    async def watch(self, watcher: str, lasts_ms: int) -> None:
        await self.fetch("watch", watcher, lasts_ms)

    async def unwatch(self, watcher: str) -> None:
        await self.fetch("unwatch", watcher)

    async def first_event(self, patience_s: float) -> Horizon:
        # A change that began before the watch was committed may have looked for watchers and found none.
        writing = await self._writing()
        gives_up_at = asyncio.get_running_loop().time() + patience_s
        while writing and asyncio.get_running_loop().time() < gives_up_at:
            await asyncio.sleep(_LOOK_S)
            writing &= await self._writing()
        (row,) = await self.fetch("first_event")
        return Horizon(row["last"], tuple(row["missing"]), tuple(writing))

    async def still_writing(self, writing: Sequence[str]) -> tuple[str, ...]:
        return tuple((await self._writing()).intersection(writing))

    async def _writing(self) -> set[str]:
        return {row[0] for row in await self.fetch("writing_transactions")}

    async def read_events(self, after: int, missing: Sequence[int], limit: int) -> list[EventRow]:
        return [
            EventRow(
                seq=seq,
                at=at,
                type=EventType(name),
                job_id=job_id,
                kind=kind,
                queue=queue,
                state=None if state is None else rows.state(state),
                run=run,
                claim=claim,
                attempt=attempt,
                data={} if data is None else msgspec.json.decode(data),
            )
            for seq, at, name, job_id, kind, queue, state, run, claim, attempt, data in await self.fetch(
                "read_events", after, list(missing), limit
            )
        ]

    async def prune_events(self, limit: int) -> int:
        return len(await self.fetch("prune_events", limit))
