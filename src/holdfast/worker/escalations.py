"""Channels and escalation policies as plain values, for the supervisor, which runs the services and imports no app."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from holdfast.policies.channels import Channel, Email, PagerDuty, SignedWebhook, Slack
from holdfast.policies.escalation import BusinessHours, Escalation

Written = dict[str, Any]
_CHANNELS: Mapping[str, type[Channel]] = {kind.__name__: kind for kind in (PagerDuty, Slack, Email, SignedWebhook)}


def write_channels(channels: Mapping[str, Channel]) -> dict[str, tuple[str, Written]]:
    """Write channels: their kind, and what they were given; over a pipe of our own only, for that holds secrets."""
    return {name: (type(channel).__name__, _given(channel)) for name, channel in channels.items()}


def read_channels(written: Mapping[str, tuple[str, Written]]) -> dict[str, Channel]:
    """Read channels."""
    return {name: _CHANNELS[kind](**given) for name, (kind, given) in written.items()}


def write_escalations(policies: Mapping[str, Escalation]) -> list[Written]:
    """Write policies."""
    return [
        _given(policy)
        | {
            "respond_within": None if policy.respond_ms is None else f"{policy.respond_ms}ms",
            "business_hours": None if policy.business_hours is None else _given(policy.business_hours),
        }
        for policy in policies.values()
    ]


def read_escalations(written: list[Written]) -> list[Escalation]:
    """Read policies."""
    return [
        Escalation(**given | {"business_hours": None if hours is None else BusinessHours(**hours)})
        for given in written
        for hours in (given["business_hours"],)
    ]


def _given(value: Any) -> Written:
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
