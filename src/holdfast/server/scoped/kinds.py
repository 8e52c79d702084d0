"""Kinds of jobs, as far as one caller may see them: those of the server's app, and what apps have published."""

from collections.abc import Mapping
from typing import Any

from holdfast import names
from holdfast.client.kinds import List, kind_info, kind_named
from holdfast.resources.kind import KindInfo
from holdfast.server.kinds import KindRegistry
from holdfast.server.principal import Principal
from holdfast.server.scoped.scope import Scope
from holdfast.stores.policies import PolicyStore
from holdfast.tasks.call import Call
from holdfast.tasks.options import UsingOptions


class ScopedKinds(Scope):
    """The kinds of one caller."""

    def __init__(self, registry: KindRegistry, store: PolicyStore, principal: Principal) -> None:
        super().__init__(principal)
        self._registry = registry
        self._store = store

    async def list(self) -> List[KindInfo]:
        """Read all kinds whose queue the caller may see, by name."""
        rows = await self._registry.rows(self._store)
        return [kind_info(row) for row in rows if self.sees(row.queue)]

    async def get(self, name: str) -> KindInfo:
        """Read one kind whose queue the caller may see, by its name or an alias."""
        return kind_named(await self.list(), names.name(name, "kind"))

    async def call(self, kind: str, arguments: Mapping[str, Any], options: UsingOptions) -> Call[Any]:
        """Make a call of a kind for a queue that the caller may see, with its arguments checked."""
        return await self._registry.call(self._store, self, kind, arguments, options)
