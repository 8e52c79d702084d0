"""What is asked before jobs are stored, on SQLite: whether rate limits let them in, and which of them are debounced.

Only queues that say so are looked at; for all others one look at them is the whole cost.
"""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.job import NewJob
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.limit_keys import key_of
from holdfast.stores.values import Inserted, Insertion, Refusal


class _Rate(NamedTuple):
    """A limit on how many may be asked for: microseconds between two, and how many may come together."""

    name: str
    queue: str | None
    kinds: frozenset[str]
    path: tuple[str, ...]
    spacing_us: int
    burst: int


class Debounced(NamedTuple):
    """The key that a job shares with those it is merged with, and how long it waits for the next of them."""

    key: str
    wait_ms: int


def admit(
    connection: sqlite3.Connection, now: int, jobs: Sequence[NewJob], known: frozenset[int], *, whole: bool
) -> dict[int, Inserted]:
    """Let jobs in as far as rate limits allow, and charge for those; the answer is who is refused, by place.

    What is known already, or asked for again under its idempotency key, is let in and costs nothing. `whole` lets in
    all of them or none.
    """
    hits = _hits(connection, now, jobs, known)
    ahead_us = _ahead(connection, now, {(rate.name, key) for _, rate, key in hits})
    places: Counter[tuple[str, str]] = Counter()
    worst: dict[int, tuple[int, Refusal]] = {}
    for place, rate, key in hits:
        places[rate.name, key] += 1
        rank = places[rate.name, key]
        over_us = ahead_us[rate.name, key] + (rank - rate.burst) * rate.spacing_us
        if over_us > 0 and over_us > worst.get(place, (0,))[0]:
            retry_ms = -(-over_us // 1_000) if rank <= rate.burst else None
            worst[place] = over_us, Refusal(rate.name, key, retry_ms)
    if not (whole and worst):
        costs: Counter[tuple[str, str]] = Counter()
        for place, rate, key in hits:
            if place not in worst:
                costs[rate.name, key] += rate.spacing_us
        _charge(connection, now, ahead_us, costs)
    return {place: Inserted(Insertion.LIMITED, None, refusal) for place, (_, refusal) in worst.items()}


def debounced(connection: sqlite3.Connection, jobs: Sequence[NewJob]) -> dict[int, Debounced]:
    """Tell which jobs are debounced, by place. A job that names its own time is not: it is to run then."""
    found = statements.fetch(connection, "debounced_kinds", kinds=statements.array({job.kind for job in jobs}))
    kinds = {kind: (wait_ms, msgspec.json.decode(path, type=tuple[str, ...])) for kind, wait_ms, path in found}
    return {
        place: Debounced(
            key_of(kinds[job.kind][1], job.payload, job.tags, job.actor, job.kind, job.queue), kinds[job.kind][0]
        )
        for place, job in enumerate(jobs)
        if job.kind in kinds and job.run_at is None and job.delay_ms is None
    }


def _hits(
    connection: sqlite3.Connection, now: int, jobs: Sequence[NewJob], known: frozenset[int]
) -> list[tuple[int, _Rate, str]]:
    """Pair jobs, by place, with the limits that count them, and the keys that they have there."""
    rates = _rates(connection)
    screened = {row[0] for row in statements.fetch(connection, "screened_queues")} if rates else set()
    return [
        (place, rate, key_of(rate.path, job.payload, job.tags, job.actor, job.kind, job.queue))
        for place, job in enumerate(jobs)
        if job.queue in screened and job.id not in known and not _is_repeated(connection, now, job)
        for rate in rates
        if rate.queue == job.queue or job.kind in rate.kinds
    ]


def _rates(connection: sqlite3.Connection) -> list[_Rate]:
    return [
        _Rate(
            name,
            queue,
            frozenset(msgspec.json.decode(kinds, type=list[str])),
            msgspec.json.decode(path, type=tuple[str, ...]),
            spacing_us,
            burst,
        )
        for name, queue, kinds, path, spacing_us, burst in statements.fetch(connection, "rate_limits")
    ]


def _is_repeated(connection: sqlite3.Connection, now: int, job: NewJob) -> bool:
    return job.key is not None and bool(
        statements.fetch(connection, "key_holder", scope="", key=job.key, now=now, kind=job.kind, payload_hash=0)
    )


def _ahead(connection: sqlite3.Connection, now: int, keys: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Read how far ahead of the time each key is, in microseconds."""
    ahead = dict.fromkeys(keys, 0)
    for name, key in keys:
        until = statements.fetch_value(connection, "rated_until", name=name, key=key)
        ahead[name, key] = max((until or 0) - now * 1_000, 0)
    return ahead


def _charge(
    connection: sqlite3.Connection, now: int, ahead_us: dict[tuple[str, str], int], costs: Counter[tuple[str, str]]
) -> None:
    charged = [
        {"name": name, "key": key, "until": now * 1_000 + ahead_us[name, key] + cost, "now": now}
        for (name, key), cost in costs.items()
    ]
    statements.change_many(connection, "charge_rate", charged)
