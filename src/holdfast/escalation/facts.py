"""What messages say: gathered once, stored with the message, and written by each channel in its own form."""

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.failure import MESSAGE_BYTES, clean
from holdfast.job import JobRow
from holdfast.payload import covered
from holdfast.policies.escalation import Escalation
from holdfast.policies.money import shown_amount
from holdfast.stores.alarms import EscalationRow

_TITLE_BYTES = 300
_VALUE_BYTES = 500
_SECRET = re.compile(r"passw|secret|token|credential|authori[sz]ation|api_?key|private_?key", re.IGNORECASE)
_HIDDEN = "(hidden)"
_SUMS = ("spent", "reserved", "lost", "ceiling")
MOST_ENTRIES = 200


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said of one escalation; `jobs` are public ids, `why` says why it is told again or who has answered."""

    dedup: str
    policy: str
    source: str
    title: str
    escalation: int | None = None
    queue: str = ""
    kind: str = ""
    count: int = 1
    first_at: datetime | None = None
    last_at: datetime | None = None
    jobs: tuple[str, ...] = ()
    attempt: int | None = None
    max_attempts: int | None = None
    error: str | None = None
    details: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    link: str | None = None
    why: str | None = None


class Together(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said of many escalations at once: everything since the last digest, or what a rate left over."""

    dedup: str
    policy: str
    is_digest: bool
    until: datetime
    alarms: int
    entries: tuple[Facts, ...]
    since: datetime | None = None
    more: int = 0


def facts_of(row: EscalationRow, policy: Escalation, job: JobRow | None, *, why: str | None = None) -> Facts:
    """Gather what is said of an escalation; `job` is the latest of its jobs, if it is still there."""
    details = {} if row.details is None else msgspec.json.decode(row.details)
    details = details if isinstance(details, dict) else {"details": details}
    error, error_class = details.pop("error", None), details.pop("error_class", None)
    if error is not None and error_class is not None:
        error = f"{error_class}: {error}"
    attempt, most = details.pop("attempt", None), details.pop("max_attempts", None)
    if job is not None:
        attempt, most = job.attempt, job.max_attempts
        if job.error is not None:
            error = f"{job.error_class}: {job.error}"
    named = tuple(public_id.encode(job_id) for job_id in row.jobs)
    return Facts(
        dedup=dedup_key(row),
        policy=policy.name,
        source=row.source,
        title=clean(row.title, _TITLE_BYTES).replace("\n", " "),
        escalation=row.id,
        queue=row.queue,
        kind=row.kind,
        count=row.count,
        first_at=row.first_at,
        last_at=row.last_at,
        jobs=named,
        attempt=attempt if isinstance(attempt, int) else None,
        max_attempts=most if isinstance(most, int) else None,
        error=None if error is None else clean(str(error), MESSAGE_BYTES),
        details={str(name): _bounded(str(name), value) for name, value in _readable(details).items()},
        fields={} if job is None else chosen(job.payload, tuple(policy.fields)),
        link=_link(policy.link, row, named),
        why=why,
    )


def _readable(details: dict[str, Any]) -> dict[str, Any]:
    """Write the sums of a budget as people write them; they are kept in millionths."""
    unit = details.get("unit")
    if not isinstance(unit, str):
        return details
    sums = {name: details[name] for name in _SUMS if isinstance(details.get(name), int)}
    return details | {name: shown_amount(micro, unit) for name, micro in sums.items()}


def dedup_key(row: EscalationRow) -> str:
    """Name an escalation: the same in every message about it, and another one for the next, also of other stores."""
    of = f"{row.policy}\n{row.source}\n{row.kind}\n{row.fingerprint}\n{row.first_at.timestamp():.3f}"
    return f"holdfast-{row.policy}-{row.id}-{hashlib.sha256(of.encode()).hexdigest()[:12]}"


def together(
    rows: Sequence[EscalationRow], policy: Escalation, jobs: dict[int, JobRow], now: datetime, since: datetime | None
) -> Together:
    """Gather what is said of many escalations; `since` is when the digest before was due."""
    entries = tuple(
        msgspec.structs.replace(
            facts_of(row, policy, jobs.get(row.jobs[0]) if row.jobs else None), count=row.count - row.digested
        )
        for row in rows[:MOST_ENTRIES]
    )
    return Together(
        dedup=f"holdfast-{policy.name}-{'digest' if since else 'rest'}-{now:%Y%m%dT%H%M%S}",
        policy=policy.name,
        is_digest=since is not None,
        since=since,
        until=now,
        alarms=sum(row.count - row.digested for row in rows),
        entries=entries,
        more=len(rows) - len(entries),
    )


def chosen(payload: Any, fields: Sequence[str]) -> dict[str, Any]:
    """Pick the fields of a payload that a policy lets messages show; what is named like a secret stays hidden."""
    found: dict[str, Any] = {}
    whole = covered(payload) if fields else None
    for field in fields:
        value: Any = whole
        for step in field.removeprefix("args.").split("."):
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                break
        else:
            found[field] = _bounded(field, value)
    return found


def _bounded(name: str, value: Any) -> Any:
    """Keep a value within bounds and without secrets, also those inside it."""
    if _SECRET.search(name):
        return _HIDDEN
    if isinstance(value, dict | list):
        return clean(msgspec.json.encode(_without_secrets(value)).decode(), _VALUE_BYTES)
    return clean(value, _VALUE_BYTES) if isinstance(value, str) else value


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _HIDDEN if _SECRET.search(str(name)) else _without_secrets(inner) for name, inner in value.items()
        }
    return [_without_secrets(inner) for inner in value] if isinstance(value, list) else value


def _link(template: str | None, row: EscalationRow, jobs: Sequence[str]) -> str | None:
    if template is None:
        return None
    parts = {"id": jobs[0] if jobs else "", "kind": row.kind, "queue": row.queue, "escalation": str(row.id)}
    for name, value in parts.items():
        template = template.replace(f"{{{name}}}", value)
    return template
