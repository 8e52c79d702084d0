"""Exporting failed jobs: a part at a time, for as long as the caller may read them."""

from collections.abc import AsyncIterator

import msgspec
from fastapi import Request

from holdfast.client.dead_letters import dead_letter
from holdfast.errors import HoldfastError
from holdfast.server.live import Live
from holdfast.server.problems import BrokenOff
from holdfast.server.scoped.client import ScopedClient
from holdfast.stores.values import JobFilter

PART = 100  # jobs that are in memory at a time, each with all its arguments


async def export_lines(request: Request, client: ScopedClient, which: JobFilter) -> AsyncIterator[bytes]:
    """Write one JSON object a line; the answer breaks off where its reader is let in no more, or the store is away."""
    live: Live = request.app.state.live
    after: str | None = None
    while True:
        try:
            page = await client.jobs.list(which, limit=PART, after=after)
        except HoldfastError as error:
            raise BrokenOff(str(error)) from error
        for job in page.jobs:
            yield msgspec.json.encode(dead_letter(job)) + b"\n"
        if page.next is None:
            return
        if not await live.still_holds(request, client.principal):  # guard: export-revoked
            message = f"{client.principal.name} may read no more"
            raise BrokenOff(message)
        after = page.next
