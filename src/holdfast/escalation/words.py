"""The sentences and lines that people read, whatever the channel."""

from datetime import datetime

from holdfast.escalation.facts import Facts, Together

TOLD_AGAIN, TEST = "again", "test"
TOGETHER = frozenset({"digest", "rest"})


def headline(facts: Facts, event: str) -> str:
    """Say in one line what has happened."""
    times = f" ({facts.count:,} times)" if facts.count > 1 else ""
    first = {TOLD_AGAIN: "unanswered: ", TEST: "test: ", "acknowledge": "acknowledged: ", "resolve": "quiet again: "}
    return f"{first.get(event, '')}{facts.title}{times}"


def headline_of_all(message: Together) -> str:
    """Say in one line what a digest holds."""
    many = f"{message.alarms:,} alarm{'' if message.alarms == 1 else 's'} of"
    kinds = len(message.entries) + message.more
    what = "since the last digest" if message.is_digest else "that were more than the rate allows one by one"
    return f"{many} {kinds:,} kind{'' if kinds == 1 else 's'} {what}"


def lines(facts: Facts) -> list[tuple[str, str]]:
    """Name everything that is known, as pairs."""
    found: list[tuple[str, str | None]] = [
        ("why", facts.why),
        ("kind", facts.kind or None),
        ("queue", facts.queue or None),
        ("job", _jobs(facts)),
        ("attempts", _attempts(facts)),
        ("last error", facts.error),
        ("count", f"{facts.count:,}" if facts.count > 1 else None),
        ("first seen", _moment(facts.first_at)),
        ("last seen", _moment(facts.last_at) if facts.count > 1 else None),
        *((name, str(value)) for name, value in facts.details.items() if value not in (None, "", 0)),
        *((name, str(value)) for name, value in facts.fields.items()),
        ("link", facts.link),
        ("answer", _answer(facts)),
    ]
    return [(name, text) for name, text in found if text]


def lines_of_all(message: Together) -> list[str]:
    """Write a line for each entry."""
    written = [_entry(facts) for facts in message.entries]
    return [*written, f"and {message.more:,} more: holdfast escalations list"] if message.more else written


def _entry(facts: Facts) -> str:
    parts = [f"{facts.count:,} x {facts.title}", *([f"queue {facts.queue}"] if facts.queue else [])]
    if facts.error and facts.error not in facts.title:
        parts.append(facts.error.partition("\n")[0])
    if facts.jobs:
        parts.append(f"job {facts.jobs[0]}")
    if facts.last_at is not None:
        parts.append(f"last seen {_moment(facts.last_at)}")
    parts += [f"{name}: {value}" for name, value in facts.fields.items()]
    return " | ".join([*parts, *([facts.link] if facts.link else [])])


def _jobs(facts: Facts) -> str | None:
    if not facts.jobs:
        return None
    others = f", before it {', '.join(facts.jobs[1:])}" if len(facts.jobs) > 1 else ""
    return facts.jobs[0] + others


def _attempts(facts: Facts) -> str | None:
    if facts.attempt is None:
        return None
    return f"{facts.attempt}" if facts.max_attempts is None else f"{facts.attempt} of {facts.max_attempts}"


def _answer(facts: Facts) -> str | None:
    return None if facts.escalation is None else f"holdfast escalations ack {facts.escalation}"


def _moment(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
