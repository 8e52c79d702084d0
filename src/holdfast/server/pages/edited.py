"""Arguments that a person has edited: which of them have changed."""

from typing import Any

from holdfast.errors import InvalidValue
from holdfast.resources.job import Job
from holdfast.server.bodies import parse_json
from holdfast.server.problems import Problem


def changes(job: Job, text: str) -> dict[str, Any]:
    """Read edited arguments, and tell which of them differ from those of the job."""
    try:
        edited = parse_json(text.encode())
    except Problem as problem:
        message = f"arguments: {problem.detail.removeprefix('body: ')}"
        raise InvalidValue(message) from None
    old = job.args
    if not isinstance(edited, dict) or not isinstance(old, dict):
        message = "arguments: expected an object, with a value for each name"
        raise InvalidValue(message)
    gone = [name for name in old if name not in edited]
    if gone:
        message = f"arguments: expected a value for {', '.join(gone)}; null is one"
        raise InvalidValue(message)
    return {name: value for name, value in edited.items() if name not in old or value != old[name]}
