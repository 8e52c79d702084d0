"""Events of PagerDuty, as version 2 of its Events API has them."""

from typing import Any

import msgspec

from holdfast.escalation import words
from holdfast.escalation.facts import Facts, Together
from holdfast.policies.channels import PagerDuty

_SUMMARY = 1_024
_KEY = 255
_SEVERITIES = {"failed": "error"}


def event_of(channel: PagerDuty, event: str, message: Facts | Together) -> bytes:
    """Write an event; those with the same `dedup_key` are one alert, which the last event may end."""
    body: dict[str, Any] = {
        "routing_key": channel.key,
        "event_action": event if event in ("acknowledge", "resolve") else "trigger",
        "dedup_key": message.dedup[:_KEY],
    }
    if body["event_action"] == "trigger":
        body |= {"client": "Holdfast"} | (_of_one(event, message) if isinstance(message, Facts) else _of_all(message))
    return msgspec.json.encode(body)


def _of_one(event: str, facts: Facts) -> dict[str, Any]:
    severity = "critical" if event == words.TOLD_AGAIN else _SEVERITIES.get(facts.source, "warning")
    payload = {
        "summary": words.headline(facts, event)[:_SUMMARY],
        "source": facts.queue or "holdfast",
        "severity": "info" if event == words.TEST else severity,
        "component": facts.kind or facts.source,
        "group": facts.policy,
        "class": facts.source,
        "custom_details": dict(words.lines(facts)),
    }
    if facts.last_at is not None:
        payload["timestamp"] = facts.last_at.isoformat()
    linked = {} if facts.link is None else {"client_url": facts.link, "links": [{"href": facts.link, "text": "Open"}]}
    return {"payload": payload, **linked}


def _of_all(message: Together) -> dict[str, Any]:
    return {
        "payload": {
            "summary": words.headline_of_all(message)[:_SUMMARY],
            "source": "holdfast",
            "severity": "warning",
            "group": message.policy,
            "class": "digest" if message.is_digest else "rest",
            "timestamp": message.until.isoformat(),
            "custom_details": {"entries": words.lines_of_all(message)[:50]},
        }
    }
