"""A filter as text, so that a server reads the same filter."""

from holdfast import public_id
from holdfast.errors import InvalidValue
from holdfast.filtering import Term
from holdfast.stores.values import JobFilter

_TIMES = {
    "since": "enqueued_from",
    "until": "enqueued_before",
    "finished-since": "finished_from",
    "finished-until": "finished_until",
}


def written(which: JobFilter) -> str:
    """Write a filter in the language of the dashboard's box."""
    if which.has_error is not None:
        message = "error: expected the name of one; whether there was any is not asked of a server"
        raise InvalidValue(message)
    ids = [public_id.encode(job) for job in which.ids]
    ids += [] if which.id_range is None else [public_id.beginning(*which.id_range)]
    ids += [] if which.id_ending is None else [public_id.ending(*which.id_ending)]
    terms = [
        *_listed("id", ids),
        *_listed("kind", which.kinds),
        *_listed("queue", which.queues),
        *_listed("state", [state.value for state in which.states]),
        *_listed("priority", [str(priority) for priority in which.priorities]),
        *(Term("tag", (value,), (name,)) for name, value in which.tags),
        *(Term("args", (value,), path) for path, value in which.args),
        *_one("actor", which.actor),
        *_one("unique", which.unique),
        *_one("schedule", which.schedule),
        *_one("parent", None if which.parent is None else public_id.encode(which.parent)),
        *_one("origin", None if which.origin is None else public_id.encode(which.origin)),
        *_one("error", which.fingerprint or which.error_name or which.error_class),
        *(Term("", (word,)) for word in which.words),
    ]
    for name, field in _TIMES.items():
        if (moment := getattr(which, field)) is not None:
            terms.append(Term(name, (moment.isoformat(),)))
    return " ".join(term.text() for term in terms)


def _listed(name: str, values: "list[str] | tuple[str, ...]") -> list[Term]:
    return [Term(name, tuple(values))] if values else []


def _one(name: str, value: str | None) -> list[Term]:
    return [] if value is None else [Term(name, (value,))]
