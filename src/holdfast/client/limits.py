"""What people ask of limits: which there are, how much of each is in use, and by whom."""

from holdfast import names
from holdfast.client.repeat import until_answered
from holdfast.errors import InvalidValue, LimitNotFound, shown
from holdfast.stores.limits import LimitRow, LimitStore, LimitUsage


class LimitHandle:
    """One limit, by its name."""

    def __init__(self, store: LimitStore, deadline_s: float, name: str) -> None:
        self.name = name
        self._store = store
        self._deadline_s = deadline_s

    def __repr__(self) -> str:
        return f"LimitHandle({self.name!r})"

    async def available(self, key: str | None = None) -> int:
        """How many more jobs under it may run now: of one key, or of all keys that were seen of late together.

        Of a limit per instance it is what is free in all living instances together that work its queue.
        """
        free = (await self.usage(key)).available
        if free is None:
            message = f"limit {shown(self.name)}: expected one with concurrency, got one that does not bound what runs"
            raise InvalidValue(message)
        return free

    async def usage(self, key: str | None = None) -> LimitUsage:
        """Read how many jobs run under it, how many wait for it and who holds it: of one key, or in all."""
        used = await until_answered(
            lambda _: self._store.limit_usage(self.name, key), self._deadline_s, "limit", changes=False
        )
        if used is None:
            message = f"no limit {shown(self.name)} is in force: `holdfast limits list` names those that are"
            raise LimitNotFound(message)
        return used


class LimitVerbs:
    """The verbs of limits, on one store."""

    def __init__(self, store: LimitStore, deadline_s: float) -> None:
        self._limit_store = store
        self._limit_deadline_s = deadline_s

    def limit(self, name: str) -> LimitHandle:
        """Look at one limit: `await app.limit("screenshot").available()`."""
        return LimitHandle(self._limit_store, self._limit_deadline_s, names.name(name, "limit"))

    async def limits(self) -> list[LimitRow]:
        """Read the limits in force, by name."""
        return await until_answered(
            lambda _: self._limit_store.list_limits(), self._limit_deadline_s, "limits", changes=False
        )
