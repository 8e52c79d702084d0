"""The health of the store, examined once for all callers."""

from dataclasses import replace

from holdfast.health.examining import examine, examine_tables, of_store, report
from holdfast.resources.health import HealthCheck, HealthLevel, HealthReport
from holdfast.server.pages.recent import recent
from holdfast.server.problems import AWAY
from holdfast.server.served import Served
from holdfast.server.sight import Sight
from holdfast.stores.migrate import Migrator

_FRESH_S = 5.0


async def read_health(sight: Sight, here: Served) -> HealthReport:
    """Examine the store; the findings of the last seconds serve all callers."""
    return await recent(sight.store, ("health", here.tasks is None), _FRESH_S, lambda: _examined(sight, here))


async def _examined(sight: Sight, here: Served) -> HealthReport:
    migrator: Migrator | None = getattr(sight.store, "migrator", None)
    found = [] if migrator is None else of_store(here.settings, await migrator.plan())
    found += await examine(sight.client, sight.store, here.settings, here.tasks, quoting=False)
    found += await examine_tables(sight.store)
    return report(here.settings, map(_safe, found))


def _safe(check: HealthCheck) -> HealthCheck:
    """Leave out what a driver said, which belongs into the log of the server."""
    if check.name == "store" and check.level is HealthLevel.ERROR:
        return replace(check, message=AWAY, advice=None)
    return check
