"""What a running handler says of itself: progress, phases, items and log lines, gathered until it is stored.

An `Entry` is one thing said. A `Journal` gathers entries, the last word on each subject counts, and makes one report of
them. Times are those of the monotonic clock, which all processes of a machine share, until they are sent.
"""

import time
from collections.abc import Iterator
from typing import Any

import msgspec


class Said(msgspec.Struct, frozen=True):
    """How far a handler is; `percent` is that of the whole job, `data` is JSON."""

    percent: float | None = None
    message: str | None = None
    data: str | None = None
    phase: str | None = None
    phase_percent: float | None = None


class PhaseNote(msgspec.Struct, frozen=True, kw_only=True):
    """How a phase began or ended; `data` and `result` are JSON."""

    name: str
    ordinal: int
    weight: float
    state: str
    percent: float | None = None
    message: str | None = None
    data: str | None = None
    error: str | None = None
    result: str | None = None
    began: float
    ended: float | None = None


class ItemsNote(msgspec.Struct, frozen=True):
    """A set of items that is worked through from here on."""

    name: str
    word: str
    phase: str | None
    keys: list[str]


class Line(msgspec.Struct, frozen=True):
    """A line that was logged."""

    number: int
    at: float
    level: str
    text: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing said; an item's end is (set, key, state, note)."""

    said: Said | None = None
    phase: PhaseNote | None = None
    items: ItemsNote | None = None
    item: tuple[str, str, str, str | None] | None = None
    line: Line | None = None
    reset: bool = False


class PhaseChange(msgspec.Struct, frozen=True, kw_only=True):
    """A phase as a store is told of it; `data` and `result` may be null, times are milliseconds before now."""

    name: str
    ordinal: int
    weight: float
    state: str
    percent: float | None
    message: str | None
    data: msgspec.Raw
    error: str | None
    result: msgspec.Raw
    started_ago: int
    ended_ago: int | None


class Changes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a report says beside progress; what is not there has not changed.

    `reset` forgets all phases and items, before the rest; `bare` leaves the progress as it was. `started` says how many
    milliseconds ago the handler began, while the store may not know it. An item's end is (set, key, state, note), a
    line is (number, milliseconds before now, level, text).
    """

    reset: bool = False
    bare: bool = False
    started: int | None = None
    sets: list[ItemsNote] = msgspec.field(default_factory=list)
    items: list[tuple[str, str, str, str | None]] = msgspec.field(default_factory=list)
    phases: list[PhaseChange] = msgspec.field(default_factory=list)
    logs: list[tuple[int, int, str, str]] = msgspec.field(default_factory=list)

    @property
    def is_only_logs(self) -> bool:
        """Whether nothing is said that anybody who watches the job waits for."""
        return self.bare and not (self.reset or self.sets or self.items or self.phases)


_NO_CHANGES = Changes()


class Journal:
    """What one run has said and the store does not know yet."""

    __slots__ = ("has_said", "items", "lines", "phases", "reset", "said", "sets")

    def __init__(self) -> None:
        self.said = Said()
        self._empty()

    def _empty(self) -> None:
        self.has_said = False
        self.reset = False
        self.sets: dict[str, ItemsNote] = {}
        self.items: dict[tuple[str, str], tuple[str, str, str, str | None]] = {}
        self.phases: dict[str, PhaseNote] = {}
        self.lines: list[Line] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not (self.has_said or self.reset or self.sets or self.items or self.phases or self.lines)

    def add(self, entry: Entry) -> None:
        """Take one thing said."""
        if entry.reset:
            self._empty()
            self.reset = True
            self.said = Said()
        if entry.said is not None:
            self.said, self.has_said = entry.said, True
        if entry.phase is not None:
            self.phases[entry.phase.name] = entry.phase
        if entry.items is not None:
            self.sets[entry.items.name] = entry.items
        if entry.item is not None:
            self.items[entry.item[:2]] = entry.item
        if entry.line is not None:
            self.lines.append(entry.line)

    def take(self) -> "Journal":
        """Take out what is to be stored now; it is put back if that fails."""
        taken = Journal()
        taken.said = self.said
        taken.has_said, taken.reset = self.has_said or self.reset, self.reset
        taken.sets, taken.items, taken.phases, taken.lines = self.sets, self.items, self.phases, self.lines
        self._empty()
        return taken

    def put_back(self, older: "Journal") -> None:
        """Take back what could not be stored; what was said since then counts."""
        if self.reset:
            return
        self.has_said, self.reset = self.has_said or older.has_said, older.reset
        self.sets = older.sets | self.sets
        self.items = older.items | self.items
        self.phases = older.phases | self.phases
        self.lines = older.lines + self.lines

    def entries(self) -> Iterator[Entry]:
        """Say everything again, one by one."""
        if self.reset:
            yield Entry(reset=True)
        if self.has_said:
            yield Entry(said=self.said)
        yield from (Entry(phase=note) for note in self.phases.values())
        yield from (Entry(items=note) for note in self.sets.values())
        yield from (Entry(item=end) for end in self.items.values())
        yield from (Entry(line=line) for line in self.lines)

    def changes(self, started_ago_ms: int | None = None) -> str | None:
        """Write what is said beside progress as JSON; None when there is nothing."""
        now = time.monotonic()
        changes = Changes(
            reset=self.reset,
            bare=not self.has_said,
            started=started_ago_ms,
            sets=list(self.sets.values()),
            items=list(self.items.values()),
            phases=[_change(note, now) for note in self.phases.values()],
            logs=[(line.number, _ago(now, line.at), line.level, line.text) for line in self.lines],
        )
        return None if changes == _NO_CHANGES else msgspec.json.encode(changes).decode()


def read_changes(text: str | None) -> Changes:
    """Read what a report says beside progress."""
    return _NO_CHANGES if text is None else msgspec.json.decode(text, type=Changes)


def _change(note: PhaseNote, now: float) -> PhaseChange:
    return PhaseChange(
        name=note.name,
        ordinal=note.ordinal,
        weight=note.weight,
        state=note.state,
        percent=note.percent,
        message=note.message,
        data=_raw(note.data),
        error=note.error,
        result=_raw(note.result),
        started_ago=_ago(now, note.began),
        ended_ago=None if note.ended is None else _ago(now, note.ended),
    )


def _raw(text: str | None) -> msgspec.Raw:
    return msgspec.Raw(b"null" if text is None else text.encode())


def _ago(now: float, at: float) -> int:
    return max(round((now - at) * 1_000), 0)


def decoded(text: str | None) -> Any:
    """Read JSON that may be missing."""
    return None if text is None else msgspec.json.decode(text)
