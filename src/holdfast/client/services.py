"""What operators ask of services."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import msgspec

from holdfast.cadence import Service, overridden, read_services, require_service
from holdfast.client.jobs import checked_actor, checked_reason
from holdfast.client.repeat import until_answered
from holdfast.config import Settings
from holdfast.duration import Duration
from holdfast.errors import ConfigError, InvalidValue
from holdfast.stores.cluster import LeaderRow, LeaderStore, ServiceReport, SettingStore

PREFIX = "services."


class ServiceState(msgspec.Struct, frozen=True):
    """A service as it is set now, what people have changed of it, and what it told last."""

    name: str
    cadence: Service
    changed: tuple[str, ...]
    report: ServiceReport | None


class ServedStore(SettingStore, LeaderStore, Protocol):
    """What services need of a store."""


class ServiceVerbs:
    """The verbs of services, on one store."""

    def __init__(self, store: ServedStore, settings: Settings) -> None:
        self._served_store = store
        self._service_settings = settings

    async def services(self) -> list[ServiceState]:
        """Read how every service is set, and what it told last."""
        changes = await self._changes()
        reports = {report.name: report for report in await self._served_store.list_services()}
        return [
            ServiceState(
                name,
                _as_set(cadence, changes.get(name, {})),
                tuple(sorted(changes.get(name, {}))),
                reports.get(name),
            )
            for name, cadence in self._service_settings.services.items()
        ]

    async def leaders(self) -> list[LeaderRow]:
        """Read who runs the services."""
        return await self._served_store.list_leaders()

    async def set_service(
        self,
        name: str,
        *,
        interval: Duration | None = None,
        batch: int | None = None,
        enabled: bool | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Set how a service runs, for everybody and within five seconds, until it is reset."""
        with refusing():
            wanted = Service(interval=interval, batch=batch, enabled=enabled is not False)
            read_services({name: wanted})  # which refuses what cannot be
        values = {
            "interval": None if interval is None else wanted.interval_s,
            "batch": batch,
            "enabled": enabled,
        }
        who, why = checked_actor(actor), checked_reason(reason)
        for part, value in values.items():
            if value is not None:
                path, written = f"{PREFIX}{name}.{part}", msgspec.json.encode(value).decode()
                await until_answered(
                    lambda _, path=path, written=written: self._served_store.set_override(  # type: ignore[misc] # bound in the loop
                        path, written, actor=who, reason=why
                    ),
                    self._service_settings.deadline_s,
                    f"set {path}",
                )

    async def reset_service(self, name: str) -> None:
        """Let a service run again as the programs say."""
        with refusing():
            require_service(name)
        for part in (await self._changes()).get(name, {}):
            path = f"{PREFIX}{name}.{part}"
            await until_answered(
                lambda _, path=path: self._served_store.reset_override(path),  # type: ignore[misc] # bound in the loop
                self._service_settings.deadline_s,
                f"reset {path}",
            )

    async def _changes(self) -> dict[str, dict[str, str]]:
        found = await until_answered(
            lambda _: self._served_store.list_overrides(PREFIX),
            self._service_settings.deadline_s,
            "services",
            changes=False,
        )
        changes: dict[str, dict[str, str]] = {}
        for row in found:
            name, _, part = row.path.removeprefix(PREFIX).partition(".")
            changes.setdefault(name, {})[part] = row.value
        return changes


@contextmanager
def refusing() -> Iterator[None]:
    """Refuse a value of a call, which would be a mistake of the program if it stood in the settings."""
    try:
        yield
    except ConfigError as error:
        raise InvalidValue(str(error)) from error


def _as_set(cadence: Service, changes: Mapping[str, str]) -> Service:
    """Apply what was set; what cannot be read is left out, as the services themselves do."""
    try:
        return overridden(cadence, changes)
    except ConfigError:
        return cadence
