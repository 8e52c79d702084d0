"""Which kinds of jobs there are, and how a request becomes a call of one.

Those of the app come from its tasks; all others are what workers have published of theirs.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec
from msgspec import UNSET

from holdfast import names, payload
from holdfast.client.clone import Check
from holdfast.client.definitions import read_definitions
from holdfast.client.kinds import unknown_kind
from holdfast.errors import InvalidValue, shown
from holdfast.server import schemas
from holdfast.server.bodies import SMALL
from holdfast.server.served import Served
from holdfast.stores.policies import KindRow, PolicyStore
from holdfast.tasks.call import Call
from holdfast.tasks.options import Policy, UsingOptions, read_options
from holdfast.tasks.registry import AnyTask

if TYPE_CHECKING:
    from holdfast.server.scoped.kinds import ScopedKinds

T = TypeVar("T")

_FRESH_S = 5.0  # others see what is published within this time


class KindRegistry:
    """The kinds that one server knows."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._settings = served.settings
        self._own: list[KindRow] = []
        self._rows: dict[str, KindRow] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

    async def rows(self, store: PolicyStore) -> list[KindRow]:
        """Read all kinds by name: those of the app, and what workers have published of others."""
        await self._read(store)
        known = {row.name: row for row in (*self._rows.values(), *self._own_rows())}
        return sorted(known.values(), key=lambda row: row.name)

    async def call(
        self, store: PolicyStore, mine: "ScopedKinds", kind: str, arguments: Mapping[str, Any], options: UsingOptions
    ) -> Call[Any]:
        """Make a call: the task checks the arguments, or what is published of them does."""
        name = names.name(kind, "kind")
        task = self._task(name)
        row = None if task is not None else await self._row(store, name)
        if not _is_known(mine, task, row, options.get("queue")):  # guard: scope-enqueue-home
            await self._refuse(mine, name)
        if task is not None:
            call: Call[Any] = await _beside(
                arguments, lambda: task.call_json(self._encoded(arguments, name), **options)
            )
        elif row is not None:
            call = await self._call_of(row, arguments, options)
        elif self._served.server.allow_unknown:
            checked = read_options(options)
            queue = checked.queue or Policy().queue
            encoded = await _beside(arguments, lambda: self._encoded(arguments, name))
            call = _call(name, queue, encoded, Policy(queue=queue), options)
        else:
            await self._refuse(mine, name)
        mine.require(call.queue)  # guard: scope-enqueue-queue
        return call

    def check_on(self, store: PolicyStore) -> Check:
        """Make the check of the arguments of a clone: they are checked as those of a new job are."""

        async def check(kind: str, arguments: str) -> str:
            if (task := self._task(kind)) is not None:
                return await asyncio.to_thread(task.arguments.check, arguments)
            row = await self._row(store, kind)
            return arguments if row is None else await self._checked(row, msgspec.json.decode(arguments))

        return check

    def _task(self, name: str) -> AnyTask | None:
        tasks = self._served.tasks
        return tasks.get(name) if tasks is not None and name in tasks else None

    def _own_rows(self) -> Iterable[KindRow]:
        served, tasks = self._served, self._served.tasks
        if tasks is not None and len(self._own) != len(tasks):
            self._own = list(read_definitions(served.settings, tasks, served.schedules).kinds)
        return self._own

    async def _row(self, store: PolicyStore, name: str) -> KindRow | None:
        """Find what is published of a kind; before one is called unknown, it is looked for again."""
        await self._read(store)
        if name not in self._rows:
            await self._read(store, anew=True)
        return self._rows.get(name)

    async def _read(self, store: PolicyStore, *, anew: bool = False) -> None:
        asked_at = time.monotonic()
        async with self._reading:  # of many who ask at once, one reads
            known = self._read_at
            if known is not None and (known > asked_at if anew else asked_at - known < _FRESH_S):
                return
            read_at = time.monotonic()
            published = await store.list_kinds()
            aliases = {name: row for row in published for name in _called(row)}
            self._rows, self._read_at = aliases | {row.name: row for row in published}, read_at

    async def _refuse(self, mine: "ScopedKinds", name: str) -> NoReturn:
        raise unknown_kind(name, [kind.name for kind in await mine.list()])

    async def _call_of(self, row: KindRow, arguments: Mapping[str, Any], options: UsingOptions) -> Call[Any]:
        told = msgspec.json.decode(row.definition)
        queue = read_options(options).queue or row.queue
        if queue != row.queue and not told.get("queue_override"):
            message = f"queue: the jobs of {row.name} belong to {row.queue!r}, got {shown(queue)}"
            raise InvalidValue(message)
        policy = Policy(
            queue=row.queue,
            priority=told.get("priority") if queue == row.queue else None,
            max_attempts=told.get("max_attempts"),
            max_crashes=told.get("max_crashes"),
            timeout_ms=told.get("timeout_ms", UNSET),
            plan=tuple((name, weight) for name, weight in told.get("phases", ())),
            on_restart=told.get("on_restart", "requeue"),
        )
        return _call(row.name, queue, await self._checked(row, arguments), policy, options)

    async def _checked(self, row: KindRow, arguments: Mapping[str, Any]) -> str:
        """Check arguments against what is published, in a thread: a few bytes may take many steps."""

        def check() -> str:
            self._encoded(arguments, row.name)  # what is too large is refused before it takes many steps
            return self._encoded(schemas.checked(_schema(row), arguments, row.name), row.name)

        return await asyncio.to_thread(check)  # guard: check-in-thread, without: return check()

    def _encoded(self, arguments: Mapping[str, Any], kind: str) -> str:
        settings = self._settings
        return payload.encode(arguments, kind, most_bytes=settings.max_args_bytes, most_depth=settings.max_depth)


async def _beside(arguments: Mapping[str, Any], check: Callable[[], T]) -> T:
    """Check arguments, large ones in a thread: they would hold up all other requests."""
    is_small = len(msgspec.json.encode(arguments)) <= SMALL  # guard: task-check-in-thread, without: is_small = True
    return check() if is_small else await asyncio.to_thread(check)


def _is_known(mine: "ScopedKinds", task: AnyTask | None, row: KindRow | None, chosen: str | None) -> bool:
    """Whether a kind may be named to the asker: its queue is theirs, or its jobs may go to one of theirs."""
    if task is not None:
        home, may_leave = task.queue, task.policy.queue_override
    elif row is not None:
        home, may_leave = row.queue, bool(msgspec.json.decode(row.definition).get("queue_override"))
    else:
        return True
    return mine.sees(home) or (may_leave and chosen is not None and mine.sees(chosen))


def _call(kind: str, queue: str, encoded: str, policy: Policy, options: UsingOptions) -> Call[Any]:
    return Call(kind=kind, queue=queue, args_json=encoded, policy=policy, options=read_options(options))


def _called(row: KindRow) -> tuple[str, ...]:
    """All names of a kind."""
    return (row.name, *msgspec.json.decode(row.definition).get("aliases", ()))


def _schema(row: KindRow) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(row.definition).get("arguments", {})
    return found
