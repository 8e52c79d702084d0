"""The examination of an open store: everything that can be looked at without changing anything."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast import ages
from holdfast.client.client import LocalClient
from holdfast.client.definitions import fingerprint
from holdfast.config import Settings
from holdfast.errors import HoldfastError
from holdfast.health import checks
from holdfast.job import WAITING
from holdfast.locations import SqliteLocation, masked
from holdfast.resources.health import HealthCheck, HealthLevel, HealthReport
from holdfast.stores.migrate import Plan
from holdfast.stores.store import Store
from holdfast.stores.values import JobFilter
from holdfast.tasks.registry import Registry

_LOOKED_AT = 1_000


def report(settings: Settings, found: Iterable[HealthCheck]) -> HealthReport:
    """Put findings together; warnings leave a store healthy."""
    listed = list(found)
    is_healthy = all(check.level is not HealthLevel.ERROR for check in listed)
    return HealthReport(healthy=is_healthy, store=masked(settings.url), checks=listed)


def of_store(settings: Settings, plan: Plan) -> list[HealthCheck]:
    """Look at a store that can be reached: its address, its schema and its file."""
    found = [checks.check("store", HealthLevel.OK, f"{masked(settings.url)} is reachable"), checks.schema(plan)]
    location = settings.location
    if isinstance(location, SqliteLocation) and location.path:
        found += checks.file(Path(location.path))
    return found


async def examine(
    client: LocalClient, store: Store, settings: Settings, tasks: Registry | None, *, quoting: bool = True
) -> list[HealthCheck]:
    """Look at a store, its queues and its workers, and (if they are known) whether tasks cover the jobs that wait.

    `quoting` lets findings quote what others ask of the database, which may hold anything.
    """
    found: list[HealthCheck] = []
    with reported(found):
        before = ages.now()
        told = await store.diagnose()
        if not quoting:
            quiet = tuple(msgspec.structs.replace(holder, query=None) for holder in told.holders)
            told = msgspec.structs.replace(told, holders=quiet)
        now = told.now
        found += [checks.software(told), checks.clock(told, before, ages.now())]
        listens_past = settings.listen_dsn is not None
        found += filter(None, (checks.pooler(told, listens_past=listens_past), checks.history(told)))
        found += checks.vacuum(told)
        with reported(found):
            queues = await client.queues.list()
            workers = await client.workers.list()
            found += [*checks.paused(queues, now), *checks.workers(workers, now)]
            found += checks.unattended(queues, workers)
            found += checks.differing(await store.worker_policies(), await _published(store), workers)
        if tasks is not None:
            with reported(found):
                waiting = JobFilter(states=tuple(sorted(WAITING)))
                page = await client.jobs.list(waiting, limit=_LOOKED_AT)
                found.append(checks.kinds(page.jobs, tasks))
    return found


async def examine_tables(store: Store) -> list[HealthCheck]:
    """Look at how large every table is, and what bounds it."""
    found: list[HealthCheck] = []
    with reported(found):
        found += checks.tables(await store.measure_tables(), (await store.diagnose()).now)
    return found


async def _published(store: Store) -> dict[str, str]:
    """Read fingerprints of what apps have published, by path."""
    marks = {row.path: fingerprint(row.definition) for row in await store.list_policies() if row.path}
    return marks | {f"kinds.{kind.name}": fingerprint(kind.definition) for kind in await store.list_kinds()}


@contextmanager
def reported(found: list[HealthCheck]) -> Iterator[None]:
    """Turn an error of a check into a finding."""
    try:
        yield
    except HoldfastError as error:
        found.append(checks.check("store", HealthLevel.ERROR, str(error), "see the database's own log"))
