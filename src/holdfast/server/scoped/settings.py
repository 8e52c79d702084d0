"""Settings, as far as one caller may see them."""

from dataclasses import replace
from typing import Any

from holdfast.client.in_force import split_field
from holdfast.client.settings import List, RuntimeSettings
from holdfast.resources.setting import Setting, SettingList
from holdfast.server.principal import Principal
from holdfast.server.roles import Permission
from holdfast.server.scoped.scope import Scope


class ScopedSettings(Scope):
    """The settings that one caller may see; the server's own, and its file, only a caller who may change settings."""

    def __init__(self, settings: RuntimeSettings, principal: Principal) -> None:
        super().__init__(principal)
        self._settings = settings

    async def list(self) -> SettingList:
        """Read every setting that the caller may see, and where it comes from."""
        found = await self._settings.list()
        if self._changes:
            return replace(found, settings=self._seen(found.settings))
        return SettingList(settings=self._seen(found.settings))

    async def overrides(self) -> List[Setting]:
        """Read the settings that people have changed at run time."""
        return self._seen(await self._settings.overrides())

    async def set(self, path: str, value: Any, *, actor: str | None = None, reason: str | None = None) -> Setting:
        """Change a setting of a limit, budget, queue or service for all apps."""
        return await self._settings.set(path, value, actor=self.acting(actor), reason=reason)

    async def reset(self, path: str) -> bool:
        """Let a setting be again what apps and their configuration say."""
        return await self._settings.reset(path)

    @property
    def _changes(self) -> bool:
        """Whether the caller may change settings."""
        return self._principal.may(Permission.CHANGE_SETTINGS.role)

    def _seen(self, settings: List[Setting]) -> List[Setting]:
        may = self._changes  # guard: settings-server, without: may = True
        return [
            setting
            for setting in settings
            if (may or not setting.path.startswith("server.")) and (self.sees_all or self._sees(setting.path))
        ]

    def _sees(self, path: str) -> bool:
        """Whether a setting is one of a queue that the caller may see."""
        sort, _, rest = path.partition(".")
        return sort == "queues" and self.sees(split_field(sort, rest)[0])
