"""Arguments that somebody edited: what has changed, and the secrets that were covered put back."""

from typing import Any

from holdfast import payload
from holdfast.errors import InvalidValue
from holdfast.job import Job
from holdfast.server.bodies import parse_json
from holdfast.server.problems import Problem


def changes(job: Job, text: str) -> dict[str, Any]:
    """Read edited arguments, and tell which of them differ from those of the job."""
    try:
        edited = parse_json(text.encode())
    except Problem as problem:
        message = f"arguments: {problem.detail.removeprefix('body: ')}"
        raise InvalidValue(message) from None
    old = job.payload
    if not isinstance(edited, dict) or not isinstance(old, dict):
        message = "arguments: expected an object, with a value for each name"
        raise InvalidValue(message)
    gone = [name for name in old if name not in edited]
    if gone:
        message = f"arguments: expected a value for {', '.join(gone)}; null is one"
        raise InvalidValue(message)
    restored = {name: _restored(value, old.get(name)) for name, value in edited.items()}
    return {name: value for name, value in restored.items() if name not in old or value != old[name]}


def _restored(new: Any, old: Any) -> Any:
    """Put a secret back where its cover was left as it was."""
    if isinstance(old, dict) and old.keys() == {payload.SECRET}:
        return old if new == payload.COVER else new
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: _restored(value, old.get(key)) for key, value in new.items()}
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [_restored(*pair) for pair in zip(new, old, strict=True)]
    return new
