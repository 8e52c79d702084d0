"""The phases of one run: which are done, which one is open, and how far the whole job is.

Nothing here touches the store: what is said goes to `Voice`, which stores it under the fence. A phase that has ended is
stored before anything else happens; how far it is, is said as often as the handler likes and stored in rounds.
"""

import inspect
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self, TypeVar

import msgspec

from holdfast import failure, payload
from holdfast.errors import ArgumentError, ConfigError, InvalidValue
from holdfast.job import JobRow
from holdfast.journal import Entry, ItemsNote, PhaseNote, Said
from holdfast.names import text
from holdfast.outcomes import Cancel, Fatal, Skip, Snooze, Throttle, outcome_of
from holdfast.phases import PhaseState, Plan, overall

T = TypeVar("T")

NAME_BYTES = 128
MOST_PHASES = 10_000
DATA_BYTES = 16_000


class Voice(Protocol):
    """Who stores what a run says."""

    def note(self, entry: Entry) -> None:
        """Store it soon: in the next round, or before the job ends."""

    async def keep(self, entry: Entry) -> None:
        """Store it now; ClaimLost when the job was taken away."""

    def wait_for(self, verb: Coroutine[Any, Any, T]) -> T:
        """Run a verb on the event loop, for a handler in a thread of its own."""

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread."""


class OpenPhase:
    """What is known of a phase that is open."""

    def __init__(self, name: str, ordinal: int, weight: float) -> None:
        self.name = name
        self.ordinal = ordinal
        self.weight = weight
        self.began = time.monotonic()
        self.is_kept = False  # its end was stored, by the handler's own transaction ...
        self.result: Any = None  # ... with this result

    def note(self, state: PhaseState, said: Said, *, result: str | None = None, error: str | None = None) -> PhaseNote:
        """Describe it."""
        return PhaseNote(
            name=self.name,
            ordinal=self.ordinal,
            weight=self.weight,
            state=state.value,
            percent=100.0 if state is PhaseState.COMPLETED else said.phase_percent,
            message=said.message,
            data=said.data,
            error=error,
            result=result,
            began=self.began,
            ended=None if state is PhaseState.RUNNING else time.monotonic(),
        )


class Phasing:
    """The phases and items of one run."""

    def __init__(self, job: JobRow, voice: Voice, plan: Plan = (), limits: Mapping[str, int] | None = None) -> None:
        self.voice = voice
        self.said = Said()
        self.open: OpenPhase | None = None
        self.failed_items: dict[str, int] = {}  # of each set, how many
        self.secrets: Callable[[], Collection[str]] = tuple  # among the arguments, which nothing told may quote
        self._job = job
        self._plan = plan
        self._limits = {} if limits is None else dict(limits)
        self._results: dict[str, Any] = {}
        self._used: set[str] = set()
        self._used_items: set[str] = set()
        self._next_ordinal = len(plan)
        self._ended_items: dict[str, dict[str, str]] = {}  # of each set, the keys that ended well

    # ---- what came before ------------------------------------------------------------------------------------------

    def resume(self, stored: JobRow) -> None:
        """Go on where an earlier claim ended: what was completed stays so."""
        for phase in stored.phases:
            if phase.state is PhaseState.COMPLETED:
                self._results[phase.name] = phase.result
            self._next_ordinal = max(self._next_ordinal, phase.ordinal + 1)
        for name, shape in stored.items.items():
            ended = dict.fromkeys(shape[f"{name}_completed"], "completed")
            for skipped in shape[f"{name}_skipped"]:
                ended[next(value for key, value in skipped.items() if key != "reason")] = "skipped"
            self._ended_items[name] = ended
            self.failed_items[name] = len(shape[f"{name}_failed"])
        if (progress := stored.progress) is not None:
            data = None if progress.data is None else msgspec.json.encode(progress.data).decode()
            self.said = Said(progress.percent, progress.message, data)

    def begin_anew(self) -> None:
        """Forget what earlier claims have stored."""
        self.voice.note(Entry(reset=True))

    @property
    def results(self) -> Mapping[str, Any]:
        """What the completed phases returned, as plain JSON values."""
        return MappingProxyType(self._results)

    @property
    def has_failed_items(self) -> bool:
        """Whether the job completes with errors."""
        return any(self.failed_items.values())

    # ---- progress --------------------------------------------------------------------------------------------------

    def progress(self, percent: float | None, message: str | None, data: Mapping[str, Any]) -> None:
        """Say how far the open phase is, or without one the whole job."""
        known = self.secrets()
        words = None if message is None else failure.hidden(str(message), known)
        told = payload.marked(dict(data), known) if known else dict(data)
        said = Said(
            percent=None if percent is None else float(percent),
            message=None if words is None else failure.clean(words, failure.MESSAGE_BYTES),
            data=payload.encode(told, "progress data", most_bytes=DATA_BYTES) if data else None,
        )
        if self.open is not None:
            said = msgspec.structs.replace(
                said,
                percent=self._overall(self.open, 0.0 if percent is None else percent),
                phase=self.open.name,
                phase_percent=said.percent,
            )
        self.said = said
        self.voice.note(Entry(said=said))

    def _overall(self, phase: OpenPhase, percent: float) -> float | None:
        if phase.ordinal < len(self._plan):
            return overall(self._plan, phase.ordinal, percent)
        return self.said.percent

    # ---- phases ----------------------------------------------------------------------------------------------------

    def phase(self, name: str) -> "PhaseBlock":
        """Make the block of one phase."""
        return PhaseBlock(self, self._checked(name))

    def begin(self, name: str) -> OpenPhase:
        """Open a phase."""
        if self.open is not None:
            message = (
                f"phase {name!r}: expected phases one after the other, but {self.open.name!r} is still open; leave"
            )
            message += " its block first, or use ctx.step() for what runs side by side"
            raise ConfigError(message)
        self.open = opened = self._opened(name)
        self.said = Said(self._overall(opened, 0.0), None, None, name, None)
        self.voice.note(Entry(said=self.said, phase=opened.note(PhaseState.RUNNING, self.said)))
        return opened

    def completion(self, opened: OpenPhase, result: Any) -> Entry:
        """Say what has to be stored for a phase to be completed."""
        said = msgspec.structs.replace(
            self.said, percent=self._overall(opened, 100.0), phase=opened.name, phase_percent=100.0
        )
        encoded = self._encoded(opened.name, result)
        return Entry(said=said, phase=opened.note(PhaseState.COMPLETED, said, result=encoded))

    def completed(self, opened: OpenPhase, result: Any) -> Entry:
        """Close a phase that went well; the answer is what has to be stored."""
        entry = self.completion(opened, opened.result if opened.is_kept else result)
        if entry.said is not None:
            self.said = entry.said
        stored = None if entry.phase is None else entry.phase.result
        self._results[opened.name] = None if stored is None else msgspec.json.decode(stored)
        self.open = None
        return entry

    def failed(self, opened: OpenPhase, error: BaseException) -> None:
        """Close a phase that raised; one that is only interrupted keeps what it said."""
        self.open = None
        outcome = outcome_of(error)
        if isinstance(outcome, Skip):
            self.said = msgspec.structs.replace(self.said, message=f"skipped: {outcome.reason}".removesuffix(": "))
            self.voice.note(Entry(phase=opened.note(PhaseState.COMPLETED, self.said)))
        elif isinstance(error, Exception) and not isinstance(outcome, Snooze | Throttle | Cancel):
            why = failure.covered(failure.from_exception(outcome or error), self.secrets())
            told = opened.note(PhaseState.FAILED, self.said, error=f"{why.error_class}: {why.message}")
            self.voice.note(Entry(phase=told))

    def is_last(self, opened: OpenPhase) -> bool:
        """Whether the job has no other phase to come."""
        return opened.ordinal == len(self._plan) - 1

    async def step(
        self, name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function once and remember what it returned: in this job it is never called again."""
        name = self._checked(name)
        if name in self._results:
            return self._results[name]
        opened = self._step_opened(name)
        try:
            value = await _called(self.voice, function, args, kwargs)
        except BaseException as error:
            was_open = self.open
            self.failed(opened, error)
            self.open = was_open
            raise
        encoded = self._encoded(name, value)
        plain = None if encoded is None else msgspec.json.decode(encoded)
        await self.voice.keep(Entry(phase=opened.note(PhaseState.COMPLETED, self.said, result=encoded)))
        self._results[name] = plain
        return plain

    def _opened(self, name: str) -> OpenPhase:
        for ordinal, (planned, weight) in enumerate(self._plan):
            if planned == name:
                return OpenPhase(name, ordinal, weight)
        self._next_ordinal += 1
        return OpenPhase(name, self._next_ordinal - 1, 1)

    def _step_opened(self, name: str) -> OpenPhase:
        """Open a step; one inside a phase has the phase's number, and goes with it."""
        return self._opened(name) if self.open is None else OpenPhase(name, self.open.ordinal, 1)

    def _checked(self, name: str) -> str:
        text(name, "phase", NAME_BYTES)
        if name in self._used:
            message = (
                f"phase {name!r}: expected each name once in a run, it was used before; give this one another name"
            )
            raise ConfigError(message)
        if name not in self._results and len(self._used | self._results.keys()) >= MOST_PHASES:
            message = f"phase {name!r}: expected at most {MOST_PHASES} phases and steps in a job; use ctx.items() for"
            message += " many things of a kind, or several jobs"
            raise ConfigError(message)
        self._used.add(name)
        return name

    def _encoded(self, name: str, value: Any) -> str | None:
        try:
            return None if value is None else payload.encode(value, f"the result of phase {name}", **self._limits)
        except ArgumentError as error:  # another attempt would do all the work again, to return the same
            raise Fatal(str(error)) from error

    # ---- items -----------------------------------------------------------------------------------------------------

    async def open_items(self, name: str, keys: Sequence[str], word: str) -> list[str]:
        """Store a set of items; the answer is those that are still to be worked through."""
        if name in self._used_items:
            message = f"items {name!r}: expected each set once in a run, it was used before; give this another name"
            raise ConfigError(message)
        self._used_items.add(name)
        phase = None if self.open is None else self.open.name
        await self.voice.keep(Entry(items=ItemsNote(name, word, phase, list(keys))))
        self.failed_items[name] = 0
        ended = self._ended_items.get(name, {})
        return [key for key in keys if key not in ended]

    def ended_before(self, name: str, keys: Sequence[str], how: str) -> int:
        """Count the items that ended so in an earlier claim."""
        ended = self._ended_items.get(name, {})
        return sum(ended.get(key) == how for key in keys)


async def _called(voice: Voice, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call what may be a coroutine function or an ordinary one, which gets a thread."""
    if is_async(function):
        answer: Awaitable[Any] = function(*args, **kwargs)
        return await answer
    value = await voice.in_thread(lambda: function(*args, **kwargs))
    return await value if isinstance(value, Awaitable) else value


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling a function gives something to await: also methods, partials and objects with `__call__`."""
    inner = getattr(function, "func", function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


class PhaseBlock:
    """`async with ctx.phase("name") as phase:`, or `with` in a thread; `phase.result` is kept with the job.

    A phase that an earlier attempt has completed says so by `is_completed` and still has its result.
    """

    def __init__(self, phasing: Phasing, name: str) -> None:
        self.name = name
        self.is_completed = name in phasing.results
        self.result: Any = phasing.results.get(name)
        self._phasing = phasing
        self._opened: OpenPhase | None = None

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (entry := self._left(error)) is not None:
            await self._phasing.voice.keep(entry)

    def __enter__(self) -> Self:
        if not self.is_completed:
            self._opened = self._phasing.begin(self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (entry := self._left(error)) is not None:
            self._phasing.voice.wait_for(self._phasing.voice.keep(entry))

    def _left(self, error: BaseException | None) -> Entry | None:
        opened, self._opened = self._opened, None
        if opened is None:
            return None
        if error is not None:
            self._phasing.failed(opened, error)
            return None
        entry = self._phasing.completed(opened, self.result)
        self.is_completed = True
        return None if opened.is_kept else entry


def checked_percent(percent: float | None) -> None:
    """Refuse what is no percentage."""
    if percent is not None and not (isinstance(percent, int | float) and 0 <= percent <= 100):  # noqa: PLR2004 - per cent
        problem = f"progress: expected a percentage from 0 to 100 or None, got {percent!r}"
        raise InvalidValue(problem)
