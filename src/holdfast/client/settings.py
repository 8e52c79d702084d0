"""Settings: what holds and where it comes from, and changing what may be changed at run time."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from holdfast.client.in_force import split_field
from holdfast.client.policies import Policies
from holdfast.errors import Conflict
from holdfast.resources.setting import Setting, SettingList
from holdfast.stores.cluster import Override

Describe = Callable[[Sequence[Override]], SettingList]
"""Lists every setting of an app and its server, with these changes put in."""

List = list  # one of the verbs has that name


class RuntimeSettings(Protocol):
    """What can be asked of the settings in force, and done to them."""

    async def list(self) -> SettingList:
        """Read every setting of the app and its server, and where it comes from; secrets are covered.

        From the weakest source: default, code, file, environment, override.
        """

    async def overrides(self) -> List[Setting]:
        """Read the settings that people have changed at run time: who, when and why."""

    async def set(self, path: str, value: Any, *, actor: str | None = None, reason: str | None = None) -> Setting:
        """Change a setting of a limit, budget, queue or service for all apps, within five seconds.

            await app.settings.set("limits.tenant.concurrency", 5, reason="the supplier is slow")

        It holds until it is reset, whatever apps define, and is checked as if it stood in the definition.
        """

    async def reset(self, path: str) -> bool:
        """Let a setting be again what apps and their configuration say; False when it had not been changed."""


class LocalSettings:
    """The settings of one app, and what is changed of them in its store."""

    def __init__(self, policies: Policies, describe: Describe) -> None:
        self._policies = policies
        self._describe = describe

    async def list(self) -> SettingList:
        """Read every setting of the app and its server, and where it comes from."""
        return self._describe(await self._policies.changes())

    async def overrides(self) -> List[Setting]:
        """Read the settings that people have changed at run time."""
        return self._changed(await self._policies.changes())

    async def set(self, path: str, value: Any, *, actor: str | None = None, reason: str | None = None) -> Setting:
        """Change a setting of a limit, budget, queue or service for all apps, within five seconds."""
        stored = await self._policies.set(path, value, actor=actor, reason=reason)
        changed = self._changed([row for row in await self._policies.changes() if row.path == stored])
        if not changed:
            message = f"{stored} was set, and another caller has reset it since; read the settings, and set it again"
            raise Conflict(message)
        return changed[0]

    async def reset(self, path: str) -> bool:
        """Let a setting be again what apps and their configuration say."""
        return await self._policies.reset(path)

    def _changed(self, rows: Sequence[Override]) -> List[Setting]:
        settings = self._describe(rows).settings if rows else []
        return [setting for setting in settings if setting.changed_at is not None]


def settings_of_one(settings: Iterable[Setting], sort: str, name: str) -> dict[str, Setting]:
    """Choose the settings of one queue, budget or limit by their fields, not those of `mail.eu` when it is `mail`."""
    found: dict[str, Setting] = {}
    for setting in settings:
        start, _, rest = setting.path.partition(".")
        owner, field = split_field(start, rest)
        if (start, owner) == (sort, name):
            found[field] = setting
    return found
