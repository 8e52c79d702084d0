"""Messages for programs: the facts as JSON, in the envelope of Standard Webhooks."""

import msgspec

from holdfast.escalation.facts import Facts, Together

_TYPES = {
    "trigger": "escalation.opened",
    "again": "escalation.unanswered",
    "acknowledge": "escalation.acknowledged",
    "resolve": "escalation.resolved",
    "digest": "escalation.digest",
    "rest": "escalation.rest",
    "test": "escalation.test",
}


def body_of(event: str, message: Facts | Together, at: str) -> bytes:
    """Write a message."""
    envelope = {"type": _TYPES[event], "timestamp": at, "data": msgspec.to_builtins(message)}
    return msgspec.json.encode(envelope, order="deterministic")
