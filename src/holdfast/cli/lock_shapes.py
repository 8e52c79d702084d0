"""What `locks list --json` prints."""

from datetime import datetime

import msgspec

from holdfast import public_id
from holdfast.stores.cluster import LockRow


class LockShape(msgspec.Struct, frozen=True, kw_only=True):
    """One lock; `owner` is the host and process that holds it."""

    name: str
    token: int
    owner: str
    worker: int | None
    job_id: str | None
    job_public_id: str | None
    claim: int | None
    since: datetime
    until: datetime
    waiters: int


class LocksShape(msgspec.Struct, frozen=True):
    """`locks list --json`."""

    locks: list[LockShape]


def lock(row: LockRow) -> LockShape:
    """Describe a lock."""
    return LockShape(
        name=row.name,
        token=row.token,
        owner=row.owner,
        worker=row.worker,
        job_id=None if row.job_id is None else str(row.job_id),
        job_public_id=None if row.job_id is None else public_id.encode(row.job_id),
        claim=row.claim,
        since=row.since,
        until=row.until,
        waiters=row.waiters,
    )
