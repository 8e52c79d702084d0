"""Searching the audit: no index knows who did what, so one search looks at so many rows and says how far it came."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from holdfast.stores.access import AccessStore, AuditFilter, AuditRow

LOOKED_AT = 20_000


@dataclass(frozen=True)
class Searched:
    """What was found, the latest first; `next` is where to go on, None at the end.

    `back_to` is how far back was looked when that was not far enough to fill the page.
    """

    deeds: Sequence[AuditRow]
    next: int | None = None
    back_to: datetime | None = None


async def search_deeds(
    store: AccessStore, which: AuditFilter, *, limit: int, before: int | None, looked_at: int = LOOKED_AT
) -> Searched:
    """Find deeds that fit, older than `before`."""
    latest = await store.list_deeds(AuditFilter(), limit=1, before=before)
    if not latest:
        return Searched([])
    first = max(latest[0].id - looked_at + 1, 0)
    found = await store.list_deeds(msgspec.structs.replace(which, first=first), limit=limit + 1, before=before)
    if len(found) > limit:
        return Searched(found[:limit], found[limit - 1].id)
    older = await store.list_deeds(AuditFilter(), limit=1, before=first)
    return Searched(found, first, older[0].at) if older else Searched(found)
