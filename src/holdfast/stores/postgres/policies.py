"""What is published of kinds, queues, limits and budgets, on PostgreSQL."""

from collections.abc import Mapping, Sequence

from holdfast.stores.policies import KindRow, Move, PolicyRow
from holdfast.stores.postgres import rows
from holdfast.stores.postgres.role import Role


class PostgresPolicies(Role):
    """The verbs of `PolicyStore`."""

    async def list_policies(self) -> list[PolicyRow]:
        return [PolicyRow(*row) for row in await self.fetch("list_policies")]

    async def define_policies(self, definitions: Sequence[PolicyRow], gone: Sequence[str]) -> None:
        paths, written = [row.path for row in definitions], [row.definition for row in definitions]
        await self.fetch("define_policies", paths, written, list(gone))

    async def mark_policies(self, mark: str) -> None:
        await self.fetch("mark_policies", rows.json_text(mark))

    async def list_kinds(self) -> list[KindRow]:
        return [
            KindRow(
                name=name,
                queue=queue,
                definition=definition,
                debounce_ms=debounce_ms,
                debounce_path=tuple(path or ()),
                budget=budget,
                estimate=estimate,
                former=tuple(former),
            )
            for name, queue, definition, debounce_ms, path, budget, estimate, former in await self.fetch("list_kinds")
        ]

    async def define_kinds(self, kinds: Sequence[KindRow]) -> None:
        await self.fetch(
            "define_kinds",
            [kind.name for kind in kinds],
            [kind.queue for kind in kinds],
            [kind.definition for kind in kinds],
            [kind.debounce_ms for kind in kinds],
            [rows.json_text(kind.debounce_path) for kind in kinds],
            [kind.budget for kind in kinds],
            [kind.estimate for kind in kinds],
        )

    async def move_kind(self, move: Move, *, after: int, limit: int) -> tuple[int, int | None]:
        (found,) = await self.fetch(
            "move_kind", move.kind, move.source, move.queue, move.was, move.becomes, after, limit
        )
        return found[0], found[1]

    async def define_queue_policies(self, definitions: Mapping[str, str], screened: Sequence[str]) -> None:
        named = sorted({*definitions, *screened})
        await self.fetch(
            "define_queue_policies",
            named,
            [definitions.get(name) for name in named],
            [name in screened for name in named],
        )

    async def list_queue_policies(self) -> dict[str, str]:
        return {row[0]: row[1] for row in await self.fetch("list_queue_policies")}

    async def note_policies(self, worker: int, policies: str) -> None:
        await self.fetch("note_policies", worker, policies)

    async def worker_policies(self) -> dict[int, str]:
        return {row[0]: row[1] for row in await self.fetch("worker_policies")}
