"""Changing settings of limits, budgets, queues and services at run time."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from holdfast.cadence import require_service
from holdfast.client.definitions import encoded, require_known
from holdfast.client.in_force import CHANGEABLE, changes_of, split_field, with_change
from holdfast.client.jobs import checked_actor, checked_reason
from holdfast.client.repeat import until_answered
from holdfast.client.services import Services, ServiceStores, refusing
from holdfast.client.settling import SettledStore, settle
from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.stores.cluster import Override

_SERVICES = "services"
_SERVICE_FIELDS = ("interval", "batch", "enabled")
_SORTS = (*CHANGEABLE, _SERVICES)


class PolicyStores(ServiceStores, SettledStore, Protocol):
    """What changes of settings need of a store."""


class Policies:
    """The settings that people change at run time, on one store."""

    def __init__(self, store: PolicyStores, deadline_s: float, services: Services) -> None:
        self._services = services
        self._store = store
        self._deadline_s = deadline_s

    async def set(self, path: str, value: Any, *, actor: str | None = None, reason: str | None = None) -> str:
        """Change a setting for all apps, checked as if it stood in the definition; gives the path in the store."""
        sort, name, field = _read_path(path)
        stored = f"{sort}.{name}.{field}"
        who, why = checked_actor(actor), checked_reason(reason)
        if sort == _SERVICES:
            with refusing():
                require_service(name)
            given: dict[str, Any] = {field: value}
            await self._services.set(name, actor=who, reason=why, **given)
            return stored
        with refusing():
            await self._check(sort, name, field, value)
        written = encoded(value)
        await until_answered(
            lambda _: self._store.set_override(stored, written, actor=who, reason=why),
            self._deadline_s,
            f"set {path}",
        )
        await self._settle(path)
        return stored

    async def reset(self, path: str) -> bool:
        """Let a setting be again what apps say; False when it had not been changed."""
        sort, name, field = _read_path(path)
        was_changed = await until_answered(
            lambda _: self._store.reset_override(f"{sort}.{name}.{field}"), self._deadline_s, f"reset {path}"
        )
        if sort != _SERVICES:
            await self._settle(path)
        return was_changed

    async def changes(self) -> list[Override]:
        """Read what people have changed, by path."""
        return await self._store.list_overrides("")

    async def _settle(self, path: str) -> None:
        await until_answered(lambda _: settle(self._store), self._deadline_s, f"settle {path}")

    async def _check(self, sort: str, name: str, field: str, value: Any) -> None:
        published = {row.path: row for row in await self._store.list_policies()}
        names = [path.partition(".")[2] for path in published if path.startswith(f"{sort}.")]
        require_known(name, names, sort.removesuffix("s"), f"{sort}.{name}")
        definition = msgspec.json.decode(published[f"{sort}.{name}"].definition)
        for override in changes_of(await self._store.list_overrides(f"{sort}.{name}."), sort, name):
            definition[override.path.rpartition(".")[2]] = msgspec.json.decode(override.value)
        try:
            with_change(encoded(definition), sort, field, value)
        except TypeError as error:
            message = f"{sort}.{name}.{field}: expected a value that fits, got {shown(value)}: {error}"
            raise ConfigError(message) from error


def _read_path(path: str) -> tuple[str, str, str]:
    """Take a path apart: a sort of thing, a name (which may have dots), a field."""
    sort, _, rest = path.partition(".")
    name, field = split_field(sort, rest)
    if sort not in _SORTS or not name:
        message = f"path: expected one like limits.tenant.concurrency, of {', '.join(_SORTS)}, got {shown(path)}"
        raise InvalidValue(message)
    fields: Sequence[str] = _SERVICE_FIELDS if sort == _SERVICES else CHANGEABLE[sort]
    if field not in fields:
        message = f"path: of {sort} these can be changed at run time: {', '.join(fields)}; got {shown(path)}"
        raise InvalidValue(message)
    return sort, name.lower(), field
