"""The filter language, one for the box of the dashboard, the API and the command line.

    kind:send_email state:failed,cancelled tag:customer=17 args.to=a@example.org since:1h "connection refused"

Every term must hold; the values of one term are alternatives. A bare id, or an end of one, is that job; other bare
words are looked for in the kind, the error and the arguments. Quotes keep spaces, colons and commas together.
"""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast import letters, names, payload, public_id
from holdfast.duration import milliseconds
from holdfast.errors import InvalidFilter, InvalidValue, WrongTerm, shown
from holdfast.job import LIVE, TERMINAL, WAITING, JobState
from holdfast.letters import Letter, cut, joined, parted, split
from holdfast.stores.values import JobFilter

LONGEST = letters.LONGEST
_MOST_WORDS = 10
_MOST_IDS = 1_000
_DEEPEST = 10
_WORD_BYTES = 200
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
_STATES = {
    **{state.value: (state,) for state in JobState},
    "waiting": tuple(state for state in JobState if state in WAITING),
    "live": tuple(state for state in JobState if state in LIVE),
    "finished": tuple(state for state in JobState if state in TERMINAL),
}
_FINGERPRINT = re.compile("[@:]")  # an error is known by its class and where, or with what, it was raised
_WHOLE_ID = re.compile(r"[0-9a-z]{4}-[0-9a-z]{4}-[0-9a-z]{4}-[0-9]{2}", re.IGNORECASE | re.ASCII)
_FIRST_DIGITS = re.compile(r"(?=.*[a-z])((?=[a-z]*[0-9])[0-9a-z]{4}-){2}[0-9a-z]{1,4}", re.IGNORECASE | re.ASCII)
_LAST_DIGITS = re.compile(  # so that neither a date nor words with a number after them are taken for one
    r"(?=[a-z]*[0-9])[0-9a-z]{4}-(?=[a-z]*[0-9])[0-9a-z]{4}-[0-9]{2}"
    r"|(?=[a-z]*[0-9])(?=[0-9]*[a-z])[0-9a-z]{4}-[0-9]{2}",
    re.IGNORECASE | re.ASCII,
)
_PLAIN = re.compile(r"[\w.@/+*#!?-]+")
_STEP = re.compile(r"[\w@/+-]+")
_ARGS = "args."


@dataclass(frozen=True)
class Term:
    """One condition as it was written: `name` is empty for a bare word, and `path` leads into the arguments."""

    name: str
    values: tuple[str, ...]
    path: tuple[str, ...] = ()

    def text(self) -> str:
        """Write it as it is read."""
        if self.name == "args":
            return f"{_ARGS}{'.'.join(map(_step, self.path))}={_spelled(self.values[0])}"
        if self.name == "tag":
            return f"tag:{self.path[0]}={_spelled(self.values[0])}"
        if self.name:
            return f"{self.name}:{','.join(map(_spelled, self.values))}"
        word = self.values[0]
        is_bare = _PLAIN.fullmatch(word) and _id_term(word) is None and not word.lower().startswith(_ARGS)
        return word if is_bare else _quoted(word)


@dataclass(frozen=True)
class Query:
    """What a filter says: its terms, and the jobs that it means at the time it was read."""

    terms: tuple[Term, ...]
    where: JobFilter

    def text(self) -> str:
        """Write the filter for the box; read again, it means the same."""
        return " ".join(term.text() for term in self.terms)

    @property
    def job(self) -> int | None:
        """The one job that is named, when nothing else is asked for."""
        is_alone = len(self.terms) == 1 and len(self.where.ids) == 1
        return self.where.ids[0] if is_alone else None


def parse(text: str, now: datetime) -> Query:
    """Read a filter; everything that is wrong with it is told at once."""
    errors: list[WrongTerm] = []
    terms: list[Term] = []
    where = JobFilter()
    for written in cut(text, errors):
        spelled = "".join(letter for letter, _ in written)
        try:
            term = _term(written)
            where = _joined(where, term, now)
        except InvalidValue as error:
            errors.append(WrongTerm(spelled[:80], str(error)))
        else:
            terms.append(term)
    if errors:
        raise InvalidFilter(errors)
    return Query(tuple(terms), where)


def both(first: JobFilter, second: JobFilter) -> JobFilter:
    """Join two filters: what has several values takes those of both, and a condition may be given in one only."""
    changes: dict[str, Any] = {}
    for field in JobFilter.__struct_fields__:
        mine, theirs = getattr(first, field), getattr(second, field)
        if isinstance(mine, tuple) and isinstance(theirs, tuple) and field not in {"id_range", "id_ending"}:
            changes[field] = tuple(dict.fromkeys(mine + theirs))
        elif mine is not None and theirs is not None and mine != theirs:
            message = f"{field}: expected it once, got it in the filter and as an option"
            raise InvalidValue(message)
        else:
            changes[field] = theirs if mine is None else mine
    if len(dict(changes["tags"])) < len(changes["tags"]):
        message = "tag: expected one value for each name, got one name twice, in the filter and as an option"
        raise InvalidValue(message)
    return JobFilter(**changes)


# ---- reading -------------------------------------------------------------------------------------------------------


def _term(written: list[Letter]) -> Term:
    """Read what one term says, without what it means."""
    spelled = joined(written)
    if written[0][1]:
        return Term("", (_word(spelled),))
    if "".join(letter for letter, is_quoted in written[: len(_ARGS)] if not is_quoted).lower() == _ARGS:
        return _args(written[len(_ARGS) :])
    name, value = parted(written, ":")
    if value is None:
        return _id_term(spelled) or Term("", (_word(spelled),))
    called = joined(name).lower()
    if called == "tag":
        return _tag(value)
    if called not in _READERS:
        raise InvalidValue(_unknown(called))
    values = tuple(part for part in map(joined, split(value, ",") if called in _MANY else [value]) if part)
    if not values:
        message = f"expected {_EXPECTED[called]} after the colon, got nothing"
        raise InvalidValue(message)
    return Term(called, values)


def _unknown(called: str) -> str:
    known = [*_READERS, "tag", "args"]
    close = difflib.get_close_matches(called, known, n=1)
    meant = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(sorted(known))}"
    return f"there is no term {shown(called)}; {meant} Quotes around it make it text to look for"


def _id_term(spelled: str) -> Term | None:
    """Take a bare word that looks like an id, or the beginning or end of one, for that."""
    if _WHOLE_ID.fullmatch(spelled) or _FIRST_DIGITS.fullmatch(spelled) or _LAST_DIGITS.fullmatch(spelled):
        return Term("id", (spelled.lower(),))
    try:
        return Term("id", (public_id.encode(public_id.decode(spelled)),))
    except InvalidValue:
        return None


def _args(written: list[Letter]) -> Term:
    where, value = parted(written, "=")
    if value is None:
        where, value = parted(written, ":")
    path = tuple(joined(step) for step in split(where, "."))
    if value is None or not all(path) or len(path) > _DEEPEST:
        message = f"expected args.name=value, or args.name.inner=value with at most {_DEEPEST} names"
        raise InvalidValue(message)
    if payload.SECRET in path:
        message = "secrets are not searched"
        raise InvalidValue(message)
    for step in path:
        names.text(step, "the name of an argument", names.KEY_BYTES)
    content = joined(value)
    return Term("args", (names.text(content, "the value of an argument", names.KEY_BYTES) if content else "",), path)


def _tag(value: list[Letter]) -> Term:
    name, content = parted(value, "=")
    if content is None:
        name, content = parted(value, ":")
    if content is None:
        message = f"expected tag:name=value, got {shown('tag:' + joined(value))}"
        raise InvalidValue(message)
    tag = names.name(joined(name), "tag name")
    return Term("tag", (names.text(joined(content), f"tag {tag}", names.KEY_BYTES),), (tag,))


def _word(spelled: str) -> str:
    return names.text(spelled, "text to look for", _WORD_BYTES)


# ---- meaning -------------------------------------------------------------------------------------------------------

_MANY = frozenset({"id", "kind", "queue", "state", "priority"})
_EXPECTED = {
    "id": "a job id or a part of one",
    "kind": "a kind",
    "queue": "a queue",
    "state": "a state",
    "actor": "who enqueued it",
    "error": "the name of an error",
    "unique": "a unique key",
    "schedule": "the name of a schedule",
    "parent": "the id of the job that enqueued it",
    "origin": "the id of the job that it replays",
    "priority": "a whole number from 0 (first) to 10 (last)",
    "since": "how long ago (1h, 2d) or a time",
    "until": "how long ago (1h, 2d) or a time",
    "finished-since": "how long ago (1h, 2d) or a time",
    "finished-until": "how long ago (1h, 2d) or a time",
}
_TIMES = {
    "since": "enqueued_from",
    "until": "enqueued_before",
    "finished-since": "finished_from",
    "finished-until": "finished_until",
}
_ONCE = {"actor": "actor", "unique": "unique", "schedule": "schedule"}


def _joined(where: JobFilter, term: Term, now: datetime) -> JobFilter:
    """Add what a term means."""
    if term.name == "":
        if len(where.words) == _MOST_WORDS:
            message = f"expected at most {_MOST_WORDS} words to look for; quotes make several words one text"
            raise InvalidValue(message)
        return _with(where, words=(*where.words, term.values[0]))
    if term.name == "args":
        if any(path == term.path and value != term.values[0] for path, value in where.args):
            message = f"args.{'.'.join(term.path)}: expected it once, got two values"
            raise InvalidValue(message)
        return _with(where, args=_added(where.args, (term.path, term.values[0])))
    if term.name == "tag":
        tag = (term.path[0], term.values[0])
        if dict(where.tags).get(tag[0], tag[1]) != tag[1]:
            message = f"tag {tag[0]}: expected it once, got two values"
            raise InvalidValue(message)
        return _with(where, tags=_added(where.tags, tag))
    return _READERS[term.name](where, term, now)


def _kinds(where: JobFilter, term: Term, _now: datetime) -> JobFilter:
    return _with(where, kinds=_added(where.kinds, *(names.name(kind, "kind") for kind in term.values)))


def _queues(where: JobFilter, term: Term, _now: datetime) -> JobFilter:
    return _with(where, queues=_added(where.queues, *(names.name(queue, "queue") for queue in term.values)))


def _states(where: JobFilter, term: Term, _now: datetime) -> JobFilter:
    found: tuple[JobState, ...] = ()
    for state in term.values:
        if state.lower() not in _STATES:
            close = difflib.get_close_matches(state.lower(), _STATES, n=1)
            meant = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(_STATES)}"
            message = f"state: there is no state {shown(state)}; {meant}"
            raise InvalidValue(message)
        found += _STATES[state.lower()]
    return _with(where, states=_added(where.states, *found))


def _priorities(where: JobFilter, term: Term, _now: datetime) -> JobFilter:
    found = []
    for value in term.values:
        is_number = value.isascii() and value.isdigit() and len(value) <= 2  # noqa: PLR2004 - 10 is the highest
        if not is_number or int(value) not in names.PRIORITIES:
            message = f"priority: expected {_EXPECTED['priority']}, got {shown(value)}"
            raise InvalidValue(message)
        found.append(int(value))
    return _with(where, priorities=_added(where.priorities, *found))


def _ids(where: JobFilter, term: Term, _now: datetime) -> JobFilter:
    for value in term.values:
        if _WHOLE_ID.fullmatch(value) or len(value.replace("-", "")) >= len("htcx2s16z48b09"):
            where = _with(where, ids=_added(where.ids, public_id.decode(value)))
            if len(where.ids) > _MOST_IDS:
                message = f"id: expected at most {_MOST_IDS:,}"
                raise InvalidValue(message)
            continue
        ending, beginning = public_id.ends(value), public_id.begins(value)
        if ending is None and beginning is None:
            message = f"id: expected a form like htcx-2s16-z48b-09 or a part of one, got {shown(value)}"
            raise InvalidValue(message)
        part: dict[str, Any] = {"id_range": beginning} if ending is None else {"id_ending": ending}
        if any(getattr(where, field) not in {None, found} for field, found in part.items()):
            message = "id: expected one part of an id, got two; whole ids may be several"
            raise InvalidValue(message)
        where = _with(where, **part)
    return where


def _error(where: JobFilter, term: Term, _now: datetime) -> JobFilter:
    value = names.text(term.values[0], "error", names.KEY_BYTES)
    return _once(where, "fingerprint" if _FINGERPRINT.search(value) else "error_name", value, "error")


def _text(where: JobFilter, term: Term, _now: datetime) -> JobFilter:
    return _once(where, _ONCE[term.name], names.text(term.values[0], term.name, names.KEY_BYTES), term.name)


def _relative(where: JobFilter, term: Term, _now: datetime) -> JobFilter:
    return _once(where, term.name, public_id.decode(term.values[0]), term.name)


def _time(where: JobFilter, term: Term, now: datetime) -> JobFilter:
    return _once(where, _TIMES[term.name], _moment(term.values[0], term.name, now), term.name)


def _moment(text: str, what: str, now: datetime) -> datetime:
    try:
        return now - timedelta(milliseconds=milliseconds(text))
    except InvalidValue:
        pass
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        moment = None
    if moment is None or not _EARLIEST <= moment <= _LATEST:
        expected = 'how long ago ("90s", "5m", "2d") or a time like "2026-11-15T09:00:00Z"'
        message = f"{what}: expected {expected}, got {shown(text)}"
        raise InvalidValue(message)
    return moment


def _once(where: JobFilter, field: str, value: Any, what: str) -> JobFilter:
    if getattr(where, field) not in {None, value}:
        message = f"{what}: expected it once, got two values"
        raise InvalidValue(message)
    return _with(where, **{field: value})


def _added(known: tuple[Any, ...], *more: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*known, *more)))


def _with(where: JobFilter, **changes: Any) -> JobFilter:
    return msgspec.structs.replace(where, **changes)


_READERS: dict[str, Callable[[JobFilter, Term, datetime], JobFilter]] = {
    "id": _ids,
    "kind": _kinds,
    "queue": _queues,
    "state": _states,
    "actor": _text,
    "error": _error,
    "unique": _text,
    "schedule": _text,
    "parent": _relative,
    "origin": _relative,
    "priority": _priorities,
    **dict.fromkeys(_TIMES, _time),
}
TERMS = ("args", "tag", *_READERS)
"""The names that terms have, for whoever completes them."""


# ---- writing -------------------------------------------------------------------------------------------------------


def _spelled(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else _quoted(value)


def _step(value: str) -> str:
    return value if _STEP.fullmatch(value) else _quoted(value)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
