"""The health of the store, examined once for all callers."""

from dataclasses import replace

from holdfast.client.client import LocalClient
from holdfast.health.examining import examine, examine_tables, of_store, report
from holdfast.resources.health import HealthCheck, HealthLevel, HealthReport
from holdfast.server.problems import AWAY
from holdfast.server.recent import recent
from holdfast.server.served import Served
from holdfast.stores.migrate import Migrator

_FRESH_S = 5.0


async def read_health(here: Served) -> HealthReport:
    """Examine the store; the findings of the last seconds serve all callers."""
    client = await here.opened()
    return await recent(client.store, ("health", here.tasks is None), _FRESH_S, lambda: _examined(client, here))


async def _examined(client: LocalClient, here: Served) -> HealthReport:
    migrator: Migrator | None = getattr(client.store, "migrator", None)
    found = [] if migrator is None else of_store(here.settings, await migrator.plan())
    found += await examine(client, client.store, here.settings, here.tasks, quoting=False)
    found += await examine_tables(client.store)
    return report(here.settings, map(_safe, found))


def _safe(check: HealthCheck) -> HealthCheck:
    """Leave out what a driver said, which belongs into the log of the server."""
    if check.name == "store" and check.level is HealthLevel.ERROR:
        return replace(check, message=AWAY, advice=None)
    return check
