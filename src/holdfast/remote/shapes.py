"""What a server answers with, read as the values that a client gives."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.job import Job, JobState

Told = Mapping[str, Any]


def moment(text: str | None) -> datetime | None:
    """Read a time."""
    return None if text is None else datetime.fromisoformat(text)


def instant(text: str) -> datetime:
    """Read a time that is always there."""
    return datetime.fromisoformat(text)


def _job_id(text: str | None) -> int | None:
    return None if text is None else public_id.decode(text)


def _json(value: Any) -> str | None:
    return None if value in (None, [], {}) else msgspec.json.encode(value).decode()


# ---- jobs ----------------------------------------------------------------------------------------------------------

_TIMES = (
    *("enqueued_at", "run_at", "claimed_at", "started_at", "finished_at", "cancel_requested_at"),
    *("stale_at", "delete_at"),
)
_SAME = ("kind", "queue", "priority", "actor", "attempt", "max_attempts", "crashes", "life", "worker", "schedule")
_SAME_TOO = ("unique_key", "error_class", "error", "error_fingerprint", "timeout_ms")
_EXTRA = ("cancelled_by", "cancel_reason", "traceback", "unreadable")


def job(told: Told, logs: Sequence[Told] = (), items: Sequence[Told] = ()) -> Job:
    """Read a job, as a list shows it or whole."""
    fields: dict[str, Any] = dict.fromkeys(Job.__struct_fields__)
    fields |= {name: told.get(name) for name in (*_SAME, *_SAME_TOO)}
    fields |= {name: moment(told.get(name)) for name in _TIMES}
    fields |= {
        "id": public_id.decode(told["id"]),
        "state": JobState(told["state"]),
        "payload_json": msgspec.json.encode(told.get("args")).decode(),
        "result_json": None if told.get("result") is None else msgspec.json.encode(told["result"]).decode(),
        "tags_json": _json(told["tags"]),
        "claim": told.get("claim", 0),
        "max_crashes": told.get("max_crashes", 0),
        "idempotency_key": told.get("key"),
        "parent": _job_id(told.get("parent")),
        "origin": _job_id(told.get("origin")),
        "extra_json": _json({name: told[name] for name in _EXTRA if told.get(name)}),
        "progress_json": _json(told.get("progress")),
        "attempts_json": _json(told.get("attempts")),
        "phases_json": _json([{**phase, "ordinal": number} for number, phase in enumerate(told.get("phases") or ())]),
        "deliveries_json": _json([{**message, "life": message["run"]} for message in told.get("webhooks") or ()]),
        "logs_json": _json(list(logs)),
        "items_json": _json(_items(told.get("items") or {}, items)),
    }
    return Job(**fields)


def _items(counts: Told, items: Sequence[Told]) -> dict[str, Any]:
    """Put the items of sets together as a job keeps them."""
    found: dict[str, dict[str, Any]] = {name: {f"{name}_total": count["total"]} for name, count in counts.items()}
    for item in items:
        note = {} if item["note"] is None else {"error" if item["state"] == "failed" else "reason": item["note"]}
        of_set = found.setdefault(item["set"], {})
        of_set.setdefault(f"{item['set']}_{item['state']}", []).append({"key": item["key"]} | note)
    return found


# ---- locks -------------------------------------------------------------------------------------------------------


# ---- what went wrong, and what was spent ---------------------------------------------------------------------------
