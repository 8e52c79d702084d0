"""Services: what they do and did, which process leads, and changing how they run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import msgspec

from holdfast.cadence import DESCRIPTIONS, Service, overridden, read_services, require_service
from holdfast.client.jobs import checked_actor, checked_reason
from holdfast.client.repeat import until_answered
from holdfast.config import Settings
from holdfast.duration import Duration
from holdfast.errors import ConfigError, InvalidValue
from holdfast.resources.service import Leader, ServiceInfo
from holdfast.stores.cluster import LeaderStore, ServiceReport, SettingStore

List = list  # one of the verbs has that name

PREFIX = "services."


class Services(Protocol):
    """What can be asked of services, and done to them."""

    async def list(self) -> List[ServiceInfo]:
        """Read how every service is set, and what it did under the current leader."""

    async def leaders(self) -> List[Leader]:
        """Read which process runs the services; none while no process leads."""

    async def set(
        self,
        name: str,
        *,
        interval: Duration | None = None,
        batch: int | None = None,
        enabled: bool | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> ServiceInfo:
        """Change how a service runs for all apps, within five seconds and until it is reset.

        await app.services.set("promotion", interval="2s", reason="fewer looks")
        """

    async def reset(self, name: str) -> ServiceInfo:
        """Let a service run again as apps and their configuration say."""


class ServiceStores(SettingStore, LeaderStore, Protocol):
    """What services need of a store."""


class LocalServices:
    """The services of one store."""

    def __init__(self, store: ServiceStores, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def list(self) -> List[ServiceInfo]:
        """Read how every service is set, and what it did under the current leader."""
        changes = await self._changes()
        reports = {report.name: report for report in await self._store.list_services()}
        return [
            service_info(name, service, changes.get(name, {}), reports.get(name))
            for name, service in self._settings.services.items()
        ]

    async def leaders(self) -> List[Leader]:
        """Read which process runs the services; none while no process leads."""
        rows = await self._store.list_leaders()
        return [Leader(holder=row.holder, term=row.term, since=row.since, until=row.until) for row in rows]

    async def set(
        self,
        name: str,
        *,
        interval: Duration | None = None,
        batch: int | None = None,
        enabled: bool | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> ServiceInfo:
        """Change how a service runs for all apps, within five seconds and until it is reset."""
        with refusing():
            wanted = Service(interval=interval, batch=batch, enabled=enabled is not False)
            read_services({name: wanted})  # which refuses what cannot be
        values = {"interval": None if interval is None else wanted.interval_s, "batch": batch, "enabled": enabled}
        who, why = checked_actor(actor), checked_reason(reason)
        for part, value in values.items():
            if value is not None:
                await self._set(f"{PREFIX}{name}.{part}", msgspec.json.encode(value).decode(), who, why)
        return await self._get(name)

    async def reset(self, name: str) -> ServiceInfo:
        """Let a service run again as apps and their configuration say."""
        with refusing():
            require_service(name)
        for part in (await self._changes()).get(name, {}):
            await self._reset(f"{PREFIX}{name}.{part}")
        return await self._get(name)

    async def _get(self, name: str) -> ServiceInfo:
        return next(service for service in await self.list() if service.name == name)

    async def _set(self, path: str, value: str, actor: str | None, reason: str | None) -> None:
        await until_answered(
            lambda _: self._store.set_override(path, value, actor=actor, reason=reason),
            self._settings.deadline_s,
            f"set {path}",
        )

    async def _reset(self, path: str) -> None:
        await until_answered(lambda _: self._store.reset_override(path), self._settings.deadline_s, f"reset {path}")

    async def _changes(self) -> dict[str, dict[str, str]]:
        rows = await until_answered(
            lambda _: self._store.list_overrides(PREFIX), self._settings.deadline_s, "services", changes=False
        )
        changes: dict[str, dict[str, str]] = {}
        for row in rows:
            name, _, part = row.path.removeprefix(PREFIX).partition(".")
            changes.setdefault(name, {})[part] = row.value
        return changes


def service_info(name: str, service: Service, changes: Mapping[str, str], report: ServiceReport | None) -> ServiceInfo:
    """Put together what is known of one service."""
    current = _as_set(service, changes)
    known = ServiceInfo(
        name=name,
        description=DESCRIPTIONS[name],
        interval_ms=round(current.interval_s * 1_000),
        batch=current.batch,
        enabled=current.enabled,
        changed=sorted(changes),
    )
    if report is None:
        return known
    return replace(
        known,
        leader=report.holder,
        reported_at=report.at,
        rounds=report.runs,
        scanned=report.scanned,
        moved=report.moved,
        failures=report.failures,
        lag_ms=report.lag_ms,
        error=report.error,
    )


@contextmanager
def refusing() -> Iterator[None]:
    """Refuse a value of a call, which would be a mistake of the program if it stood in the settings."""
    try:
        yield
    except ConfigError as error:
        raise InvalidValue(str(error)) from error


def _as_set(service: Service, changes: Mapping[str, str]) -> Service:
    """Apply what was set; what cannot be read is left out, as the services themselves do."""
    try:
        return overridden(service, changes)
    except ConfigError:
        return service
