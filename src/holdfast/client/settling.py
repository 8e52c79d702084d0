"""Publishing what a program defines, and working out what holds.

Whoever publishes or changes something works out what holds and looks again afterwards, so that of two who do so at once
the later one has seen what the earlier did. A mark in the store says what it was last worked out from: while it fits,
there is nothing to do.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.client.definitions import Definitions, fingerprint
from holdfast.client.in_force import in_force, mark_of
from holdfast.config import Settings
from holdfast.errors import Conflict
from holdfast.stores.budgets import BudgetStore
from holdfast.stores.cluster import SettingStore
from holdfast.stores.limits import LimitStore
from holdfast.stores.policies import KindRow, Move, PolicyRow, PolicyStore

_ROUNDS = 20
_BATCH = 1_000
_UNDER_WAY = ""


class SettledStore(PolicyStore, SettingStore, LimitStore, BudgetStore, Protocol):
    """What settling needs of a store."""


async def publish(store: SettledStore, settings: Settings, definitions: Definitions) -> list[str]:
    """Let everybody work by what this program defines; the answer names the queues that got jobs of moved kinds."""
    published = {row.path: row for row in await store.list_policies() if row.path}
    kinds = await store.list_kinds()
    changed = [
        PolicyRow(path, definition)
        for path, definition in definitions.policies.items()
        if path not in published or fingerprint(published[path].definition) != fingerprint(definition)
    ]
    gone = _gone(published, kinds, definitions)
    if changed or gone:
        await store.define_policies(changed, gone)
    known = {kind.name: kind for kind in kinds}
    new = [kind for kind in definitions.kinds if not _is_same(known.get(kind.name), kind)]
    if new:
        await store.define_kinds(new)
        kinds = await store.list_kinds()
    await settle(store)
    return await _move_jobs(store, settings, kinds, {kind.name for kind in definitions.kinds})


async def settle(store: SettledStore, *, is_forced: bool = False) -> None:
    """Work out what holds, unless it was worked out from the very same before."""
    for _ in range(_ROUNDS):
        policies, kinds = await store.list_policies(), await store.list_kinds()
        overrides = await store.list_overrides("")
        mark = mark_of(policies, kinds, overrides)
        last = next((msgspec.json.decode(row.definition) for row in policies if not row.path), None)
        if last == mark and not is_forced:
            return
        is_forced = False
        await store.mark_policies(_UNDER_WAY)  # whoever finds it so does it again
        held = in_force(policies, kinds, overrides)
        await store.define_limits(held.limits, held.gated)
        changed = await store.define_budgets(held.budgets)
        # Whoever began this before us may have gone between the two steps.
        for name in [budget.name for budget in held.budgets] if last == _UNDER_WAY else changed:
            while await store.release_deferred(name, _BATCH) >= _BATCH:
                pass
        await store.define_queue_policies(held.queues, held.screened)
        await store.mark_policies(mark)
    message = "policies are changed by others faster than they can be worked out; try again"
    raise Conflict(message)


def _is_same(known: KindRow | None, kind: KindRow) -> bool:
    if known is None or fingerprint(known.definition) != fingerprint(kind.definition):
        return False
    fields = ("queue", "debounce_ms", "debounce_path", "budget", "estimate")
    return all(getattr(known, name) == getattr(kind, name) for name in fields)


def _gone(published: dict[str, PolicyRow], kinds: Sequence[KindRow], definitions: Definitions) -> list[str]:
    """Name what is defined no more: what concerns kinds of this program, and of no other."""
    own = {kind.name for kind in definitions.kinds}
    gone = []
    for path, row in published.items():
        if path in definitions.policies:
            continue
        concerned = _concerned(path, row, kinds)
        if concerned and concerned <= own:
            gone.append(path)
    return gone


def _concerned(path: str, row: PolicyRow, kinds: Sequence[KindRow]) -> set[str]:
    sort, _, name = path.partition(".")
    definition = msgspec.json.decode(row.definition)
    queue = name if sort == "queues" else definition.get("queue")
    concerned = set(definition.get("kinds", ())) | {kind.name for kind in kinds if kind.queue == queue}
    for kind in kinds:
        named = msgspec.json.decode(kind.definition)
        if name in named.get("limits", ()) if sort == "limits" else sort == "budgets" and kind.budget == name:
            concerned.add(kind.name)
    return concerned


async def _move_jobs(store: SettledStore, settings: Settings, kinds: Sequence[KindRow], own: set[str]) -> list[str]:
    """Let waiting jobs follow their kinds out of the queues that these once had."""
    moves = [_move_of(settings, kind, source) for kind in kinds if kind.name in own for source in kind.former]
    return [move.queue for move in moves if await _move(store, move)]


def _move_of(settings: Settings, kind: KindRow, source: str) -> Move:
    """Describe a move: jobs with the priority of the old queue get that of the kind, others have their own."""
    becomes: int = msgspec.json.decode(kind.definition)["priority"]
    was = settings.queue_of(source).priority
    return Move(kind=kind.name, source=source, queue=kind.queue, was=was, becomes=becomes)


async def _move(store: SettledStore, move: Move) -> int:
    total, after = 0, -1
    while True:
        moved, last = await store.move_kind(move, after=after, limit=_BATCH)
        total += moved
        if last is None or moved < _BATCH:
            return total
        after = last
