"""What handlers saw of schedules, and a store without any."""

from holdfast import Context, Holdfast
from tests.support import raw
from tests.support.wait import until

KEPT = ("schedules", "fires", "overrides", "service_reports", "leaders")


async def emptied(app: Holdfast) -> None:
    """Leave nothing of what earlier tests scheduled and set."""
    for table in KEPT:
        await raw.execute(app.store, f"DELETE FROM holdfast.{table}")


class Seen:
    """What handlers saw."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, Context]] = []

    def add(self, word: str, ctx: Context) -> None:
        self.runs.append((word, ctx))

    def words(self) -> list[str]:
        return [word for word, _ in self.runs]

    async def reach(self, count: int, word: str | None = None) -> None:
        await until(
            lambda: sum(word in (None, seen) for seen in self.words()) >= count, f"{count} jobs have run ({word})"
        )
