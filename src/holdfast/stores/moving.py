"""What a move between two stores is made of: its mark, how far it is, the tables it takes, and what columns hold.

A row on its way is a mapping of column names to values that belong to no database: times are microseconds since 1970,
JSON is text, a flag is a bool.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from holdfast.errors import Conflict, StoreMoved

Row = Mapping[str, Any]
Key = Sequence[Any]

BATCH = 1_000


class Stage(StrEnum):
    """How far a store is closed: no new work, no change at all, never again."""

    DRAINING = "draining"
    CLOSED = "closed"
    MOVED = "moved"


class Move(msgspec.Struct, frozen=True):
    """The mark on a store whose jobs move away; `to` is the new URL without its password."""

    id: str
    to: str
    with_history: bool
    stage: Stage

    @property
    def batch(self) -> int:
        """The claim batch by which copies are known that nobody may touch yet: negative, as no worker's is."""
        return -int(self.id, 16) - 1

    @property
    def words(self) -> str:
        """What programs are told that want to change something here."""
        if self.stage is Stage.MOVED:
            return f"this store has been moved to {self.to}: use that one"
        return f"this store is being moved to {self.to}: use that one when the move has ended"


class MoveProgress(msgspec.Struct, frozen=True):
    """How far a move has come, kept in the target by the commit that wrote the rows: the table, and its last key.

    `run` names the process that is at it; one that was replaced writes nothing any more. `shifts` says by how much the
    numbers of rows grow on their way, by table.
    """

    id: str
    tag: int
    run: str
    step: str = ""
    after: list[Any] | None = None
    counts: dict[str, int] = {}
    shifts: dict[str, int] | None = None

    @property
    def batch(self) -> int:
        """The claim batch of the copies of this move."""
        return -int(self.id, 16) - 1


class Tags(NamedTuple):
    """What the ids of a store begin with: those it hands out, and those that it holds."""

    own: int
    held: frozenset[int]


class Release(NamedTuple):
    """What a copied job becomes when its time comes."""

    id: int
    state: str
    claim_batch: int | None


class Table(NamedTuple):
    """A table in the order of a key; without one, in the order in which its rows lie there."""

    name: str
    key: tuple[str, ...]
    where: str = "true"
    step: str = ""

    @property
    def title(self) -> str:
        """What the step is called."""
        return self.step or self.name


JOBS = Table("jobs", ("id",))
HISTORY = Table("history", ("id",))
PARTS = (
    Table("attempts", ("job_id", "claim")),
    Table("progress", ("job_id",)),
    Table("phases", ("job_id", "name")),
    Table("item_sets", ("job_id", "name")),
    Table("items", ("job_id", "set_name", "key")),
    Table("logs", ("job_id", "claim", "line")),
)
"""What belongs to live jobs."""

KEYS = Table("idempotency", ("scope", "key"))
"""Each key comes with the payload that it stands for, where that is known: stores fingerprint payloads differently."""

NAMED = (
    Table("queues", ("name",)),
    Table("overrides", ("path",)),
    Table("disabled_endpoints", ("endpoint",)),
    Table("schedules", ("name",)),
    Table("fires", ("schedule", "nominal")),
    Table("budget_periods", ("budget", "key", "starts_at")),
    Table("reservations", ("job_id", "claim")),
    Table("ledger", ("job_id", "claim", "n")),
    KEYS,
)
"""What the target may have under the same name: its own stays."""

DEAD_LETTERS = (Table("dead_letters", ("id",)), Table("dead_letter_queues", ("queue", "id")))
"""Groups of failed jobs, of which the target may have some too: its own stay."""

PENDING_DELIVERIES = Table("deliveries", ("job_id", "life", "event"), "state = 'pending'")
DELIVERIES = Table("deliveries", ("job_id", "life", "event"))
RETENTION_DUE = Table("retention_due", ("job_id", "what"))
ROLLUPS = Table("rollups", ())
POLICY_STATES = Table("escalation_policies", ("name",))
ESCALATIONS = Table("escalations", ("id",))
OPEN_ESCALATIONS = Table("escalations", ("id",), "(resolved_at IS NULL OR digested < count)")
NOTICES = Table("notices", ("id",))
PENDING_NOTICES = Table("notices", ("id",), "state = 'pending'")
ALARMS = Table("alarms", ())
BULK_RUNS = Table("bulk_runs", ("id",))
LIVE_BULK_RUNS = Table("bulk_runs", ("id",), "state IN ('running', 'paused')")
TOKENS = Table("passes", ("id",), "kind = 'token'")
"""What programs and people come in with; whoever is logged in logs in again."""

AUDIT = Table("audit", ("id",))

READY = Table("jobs", ("queue", "priority", "position", "id"), "state = 'queued'", "ready jobs")
WAITING = Table("jobs", ("id",), "state <> 'queued'", "waiting jobs")

CLOSED_TABLES = (
    *(table.name for table in (JOBS, HISTORY, *PARTS, *NAMED, DELIVERIES, RETENTION_DUE, ROLLUPS)),
    *(table.name for table in (POLICY_STATES, ESCALATIONS, NOTICES, ALARMS, BULK_RUNS, TOKENS)),
)
"""What nobody may change in a store that is closed; what was tried there is still written down."""


class Kind(StrEnum):
    """What a column holds."""

    PLAIN = "plain"
    TIME = "time"
    JSON = "json"
    FLAG = "flag"


_TIMES = frozenset(
    {
        *("at", "closed_until", "failing_since", "fire_time", "last_fire", "minute", "next_fire", "nominal"),
        *("rated_until", "snoozed_until"),
    }
)
_FLAGS = frozenset({"gated", "gave_up", "is_late", "result_omitted", "screened", "tells"})
_DOCUMENTS = (
    *("alerts", "attempts", "data", "definition", "detail", "details", "extra", "filter", "items", "log", "logs"),
    *("override", "payload", "phases", "progress", "result", "retention", "run", "stale", "tags", "value", "wait"),
    "webhook",
)


def kind_of(column: str) -> Kind:
    """Say what a column holds by its name, where the database does not know: SQLite keeps numbers and text."""
    if column.endswith("_at") or column in _TIMES:
        return Kind.TIME
    if column in _FLAGS:
        return Kind.FLAG
    return Kind.JSON if column in _DOCUMENTS else Kind.PLAIN


class MoveStore(Protocol):
    """What a move asks of the store that jobs leave, and of the one that they come to."""

    async def read_move(self) -> Move | None:
        """Read the mark of a store that jobs leave."""

    async def mark_move(self, move: Move) -> bool:
        """Close the store as far as the mark says; False, and nothing changed, while jobs run that may still end.

        What was committed before is there to be copied, whatever comes later is refused with `StoreMoved`. `Conflict`
        when the store is marked by another move, or the move was given up. Unknown: ask again.
        """

    async def unmark_move(self) -> None:
        """Open the store again. Unknown: ask again."""

    async def read_tags(self) -> Tags:
        """Read what ids begin with."""

    async def change_tag(self, tag: int) -> None:
        """Let the ids to come begin with another tag. Unknown: ask again."""

    async def last_numbers(self) -> dict[str, int]:
        """Read the largest number of each table whose rows are known by one that was drawn; 0 where there is none."""

    async def take_numbers(self, numbers: Mapping[str, int], progress: MoveProgress) -> MoveProgress:
        """Keep numbers free for rows that come, up to these; the answer is the progress with its shifts.

        Numbers stay as they are where the store has none of them, and come after its own otherwise. Unknown: ask again;
        what was kept free meanwhile is a gap.
        """

    async def read_page(self, table: Table, after: Key | None) -> tuple[list[Row], list[Any] | None]:
        """Read the next rows after a key, and the key to go on with; None after the last."""

    async def same_rows(self, table: Table, rows: Sequence[Row]) -> list[Row]:
        """Read what stands under the keys of these rows."""

    async def put_rows(
        self, table: Table, rows: Sequence[Row], progress: MoveProgress, *, is_rehearsal: bool = False
    ) -> list[Row]:
        """Write rows and how far that brings the move in one commit; what stands under a key already stays.

        The answer is what stands under their keys then. A rehearsal is rolled back. Unknown: read the progress.
        """

    async def release_jobs(self, releases: Sequence[Release], progress: MoveProgress) -> None:
        """Let copied jobs be worked, at the end of their lanes and in this order. Unknown: read the progress."""

    async def take_progress(self, progress: MoveProgress) -> MoveProgress:
        """Go on with a move in place of whoever was at it; the answer is how far it is by now. Unknown: ask again."""

    async def move_progress(self) -> list[MoveProgress]:
        """Read how far the moves to this store have come that have not ended."""

    async def end_progress(self, move_id: str) -> None:
        """Forget how far a move has come. Unknown: ask again."""

    async def drop_copies(self, progress: MoveProgress) -> int:
        """Delete what a move has copied, as long as it was not released. Unknown: ask again."""


def closed_for_another(row: Row) -> Row:
    """Close an escalation that comes to where the same one is open: that one goes on counting, and reminds people.

    Who was told of this one is told of its end as usual, after a quiet hour.
    """
    ended_at = None if row["told_at"] is not None else row["last_at"]
    return {**row, "closed_at": row["last_at"], "resolved_at": ended_at, "due_at": None, "snoozed_until": None}


def require_run(note: str | None, progress: MoveProgress) -> None:
    """Refuse a process that another one has replaced, or whose move was given up."""
    if note is None or msgspec.json.decode(note, type=MoveProgress).run != progress.run:
        message = "another process goes on with this move, or it was given up: nothing more is written by this one"
        raise Conflict(message)


def require_marked(is_marked: bool | None) -> bool:  # noqa: FBT001 - what the store has answered
    """Refuse to mark a store that another move has marked, or whose move was given up."""
    if is_marked is None:
        message = (
            "the store is marked by another move, or this one was given up meanwhile: look with `holdfast doctor`,"
        )
        message += " and run the command again"
        raise Conflict(message)
    return is_marked


def require_here(move: Move | None, where: str) -> None:
    """Refuse a store whose jobs have moved away, or are about to."""
    if move is not None:
        message = f"{where}: {move.words}"
        raise StoreMoved(message)
