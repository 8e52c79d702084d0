"""What configuration says of one kind of job, over what its task says."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import UNSET, UnsetType

from holdfast import names
from holdfast.about import About
from holdfast.duration import Duration, PositiveDuration, milliseconds
from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.formats import OR_NONE
from holdfast.policies.keys import KeyText, key_path
from holdfast.policies.money import Amount, AmountText, read_amount
from holdfast.retry import Backoff


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What holds for the jobs of a kind, instead of what `@app.task` says; whatever is left out stays as it says.

    Another `queue` also moves the jobs that wait in the old one, at the next start of a worker or `config apply`.
    `limits` and `budget` name definitions of the app; `debounce_key` goes with `debounce`.
    """

    name: str
    queue: Annotated[names.Name | None, About("The queue that its jobs go to.", "default")] = None
    limits: Annotated[Iterable[names.Name] | None, About("The limits that hold for its jobs.", ["tenant"])] = None
    budget: Annotated[names.Name | None, About("The budget that its jobs spend of.", "ai")] = None
    estimate: Annotated[
        AmountText | None, About("What one of its jobs spends, as long as nothing is reported.", "$0.02")
    ] = None
    timeout: Annotated[
        PositiveDuration | UnsetType | None, OR_NONE, About("How long an attempt may run; none: no limit.", "5m")
    ] = UNSET
    retry: Annotated[Backoff | None, About("How long a failed attempt waits for the next.")] = None
    max_attempts: Annotated[names.Count | None, About("How many attempts a job has.", 5)] = None
    note: Annotated[names.Text | None, About("A word on it for operators.", "sends one mail")] = None
    debounce: Annotated[
        PositiveDuration | None, About("How long a job waits for the next call, which replaces it.", "5s")
    ] = None
    debounce_key: Annotated[KeyText | None, About("Which calls replace each other; else all.", "args.doc")] = None
    estimated: Amount | None = field(init=False, repr=False, compare=False)  # what `estimate` means
    timeout_ms: int | UnsetType | None = field(init=False, repr=False, compare=False)
    debounce_ms: int | None = field(init=False, repr=False, compare=False)
    debounce_path: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            self._read()
        except InvalidValue as error:
            message = f"kind {shown(self.name)}: {error}"
            raise ConfigError(message) from error

    def _read(self) -> None:
        object.__setattr__(self, "name", names.name(self.name, "name"))
        for what in ("queue", "budget"):
            if getattr(self, what) is not None:
                object.__setattr__(self, what, names.name(getattr(self, what), what))
        if self.limits is not None:
            given = (self.limits,) if isinstance(self.limits, str) else self.limits
            object.__setattr__(self, "limits", tuple(names.name(limit, "limits") for limit in given))
        amount = None if self.estimate is None else read_amount(self.estimate, what="estimate")
        object.__setattr__(self, "estimated", amount)
        object.__setattr__(self, "timeout_ms", _length(self.timeout, "timeout"))
        object.__setattr__(self, "debounce_ms", _length(self.debounce, "debounce"))
        object.__setattr__(self, "debounce_path", key_path(self.debounce_key, "debounce_key"))
        if self.debounce_key is not None and self.debounce is None:
            message = f"debounce_key: expected with debounce, got {shown(self.debounce_key)} alone"
            raise InvalidValue(message)
        if self.retry is not None and not isinstance(self.retry, Backoff):
            message = f"retry: expected backoff(...), got {shown(self.retry)}"
            raise InvalidValue(message)
        if self.max_attempts is not None:
            names.count(self.max_attempts, "max_attempts")
        if self.note is not None:
            names.text(self.note, "note", names.KEY_BYTES)


def _length(given: Duration | UnsetType | None, what: str) -> int | UnsetType | None:
    if given is None or isinstance(given, UnsetType):
        return given
    length = milliseconds(given, what)
    if length == 0:
        message = f"{what}: expected more than 0, got {shown(given)}"
        raise InvalidValue(message)
    return length
