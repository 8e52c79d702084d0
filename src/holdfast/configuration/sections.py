"""The whole form of a configuration: every section, every key, and what may stand there."""

from collections.abc import Mapping
from typing import Any, get_args

from holdfast import names
from holdfast.cadence import DEFAULTS, LARGEST_BATCH
from holdfast.config import DEEPEST_PAYLOAD, LARGEST_PAYLOAD, LARGEST_POOL, OnError, Synchronous
from holdfast.configuration import values
from holdfast.configuration.shapes import Group, Many, Named, Shape, Table, Tagged, fixed
from holdfast.configuration.values import (
    ANY,
    CLOCK,
    CRON,
    DATE,
    DAYS,
    FLAG,
    KEY,
    RATE,
    REDIS_URL,
    SECRET,
    SIGNING,
    UNIT,
    WORD,
    ZONE,
    choice,
    duration,
    name,
    number,
    text,
    whole,
)
from holdfast.job import TERMINAL
from holdfast.policies.budgets import Action, Period
from holdfast.policies.escalation import SOURCES
from holdfast.policies.limits import MOST_BURST, MOST_SLOTS, Scope
from holdfast.presets import PRESETS
from holdfast.queues import FOREVER, MOST_SHARE
from holdfast.schedules import Missed, Overlap
from holdfast.shards import HEAVIEST
from holdfast.webhooks.settings import EVENTS
from holdfast.worker_settings import MOST_CONCURRENT, MOST_PROCESSES, Logs

_COUNT = whole(1, 1_000_000)
_LENGTH = duration()
_TIMEOUT = _LENGTH.or_none()
_KEPT = duration(words=(FOREVER,))
_OUTCOMES = tuple(sorted(outcome.value for outcome in TERMINAL))
_NAMES = Many(of=name())
_ROLE = choice("viewer", "operator", "admin")


def _min_and_max(workers: Mapping[str, Any]) -> str | None:
    least, most = workers["min"], workers["max"]
    return None if least <= most else f"expected min at most max, got {least} and {most}"


RETRY = Group(
    describes="How long a failed attempt waits for the next one.",
    fields={
        "growth": choice("fixed", "linear", "exponential"),
        "base": duration(or_zero=True),
        "factor": number(1, 100),
        "cap": duration(or_zero=True),
        "jitter": number(0, 1),
        "exponent_offset": whole(0, 100),
    },
    short=fixed("base"),
)

_OUTCOME_LENGTHS = Group(
    fields=dict.fromkeys(_OUTCOMES, _KEPT),
    short=("completed", lambda value: dict.fromkeys(_OUTCOMES, value)),
)

STORE = Group(
    describes="Where the jobs live.",
    fields={
        "url": values.STORE_URL,
        "schema": values.SCHEMA_NAME,
        "pool_size": whole(1, LARGEST_POOL),
        "deadline": _LENGTH,
        "synchronous": choice(*get_args(Synchronous)),
        "listen_dsn": values.LISTEN_URL.or_none(),
    },
    short=fixed("url"),
)

TASK_DEFAULTS = Group(
    describes="What holds for tasks that say nothing of it.",
    fields={
        "max_attempts": _COUNT,
        "max_crashes": _COUNT,
        "timeout": _TIMEOUT,
        "retry": RETRY,
        "on_error": choice(*get_args(OnError)),
        "max_payload": whole(1, LARGEST_PAYLOAD),
        "max_depth": whole(1, DEEPEST_PAYLOAD),
    },
)

WORKER = Group(
    describes="How workers behave.",
    fields={
        "concurrency": whole(1, MOST_CONCURRENT),
        "processes": whole(1, MOST_PROCESSES),
        "lease": _LENGTH,
        "embedded_lease": _LENGTH,
        "shutdown_grace": duration(or_zero=True),
        "cancel_grace": _LENGTH,
        "kill_grace": _LENGTH,
        "poll": _LENGTH,
        "transaction_budget": _LENGTH,
        "logs": choice(*get_args(Logs)),
    },
)

QUEUE = Group(
    fields={
        "description": text(),
        "priority": whole(names.HIGHEST_PRIORITY, names.LOWEST_PRIORITY),
        "colour": text(),
        "workers": Group(
            fields={"min": whole(1, MOST_CONCURRENT), "max": whole(1, MOST_CONCURRENT)},
            needed=("min", "max"),
            rule=_min_and_max,
            short=("min", lambda value: {"min": value, "max": None}),
        ),
        "sla": _LENGTH.or_none(),
        "poll": _LENGTH.or_none(),
        "timeout": _TIMEOUT,
        "retry": RETRY,
        "max_attempts": _COUNT,
        "ageing": Group(fields={"after": _LENGTH, "share": whole(1, MOST_SHARE)}),
        "escalation": name("a policy of `escalations`"),
        "retention": _OUTCOME_LENGTHS,
        "stale_after": _OUTCOME_LENGTHS,
        "tell_retention": FLAG,
        "webhook": Group(
            fields={"url": WORD, "events": Many(of=choice(*EVENTS)), "secret": Many(of=SIGNING)},
            short=fixed("url"),
        ),
    },
)

LIMIT = Group(
    fields={
        "queue": name("a queue"),
        "kinds": _NAMES,
        "key": KEY,
        "concurrency": whole(1, MOST_SLOTS),
        "scope": choice(*get_args(Scope)),
        "throttle": RATE,
        "burst": whole(1, MOST_BURST),
        "rate": RATE,
        "rotate": FLAG,
        "fifo": FLAG,
        "metric": name(),
    },
)

BUDGET = Group(
    fields={
        "amount": values.AMOUNT,
        "unit": UNIT,
        "period": choice(*get_args(Period)),
        "tz": ZONE,
        "queue": name("a queue"),
        "kinds": _NAMES,
        "key": KEY,
        "thresholds": Table(of=Many(of=choice(*get_args(Action))), key=values.SHARE),
    },
)

CHANNELS = Tagged(
    describes="Where escalations go.",
    types={
        "pagerduty": Group(fields={"key": SECRET, "url": values.WEB_URL}, needed=("key",)),
        "slack": Group(fields={"url": values.SECRET_URL}, needed=("url",)),
        "email": Group(
            fields={
                "to": Many(of=values.ADDRESS),
                "sender": values.ADDRESS,
                "host": text(),
                "port": whole(1, 65_535),
                "username": text(),
                "password": SECRET,
                "starttls": FLAG,
            },
            needed=("to", "sender"),
        ),
        "webhook": Group(fields={"url": values.WEB_URL, "secret": SECRET}, needed=("url", "secret")),
    },
)

ESCALATION = Group(
    fields={
        "channels": Many(of=name("a channel of `channels`")),
        "digest_at": CLOCK,
        "tz": ZONE,
        "respond_within": _LENGTH,
        "business_hours": Group(
            fields={"days": DAYS, "from": CLOCK, "to": values.CLOSING, "tz": ZONE, "holidays": Many(of=DATE)}
        ),
        "repeat": whole(0, 100),
        "then": name("a policy of `escalations`"),
        "fields": Many(of=text()),
        "link": values.WEB_URL,
        "rate": RATE,
        "sources": Many(of=choice(*SOURCES)),
    },
)

KIND = Group(
    fields={
        "queue": name("a queue"),
        "limits": Many(of=name("a limit of `limits`")),
        "budget": name("a budget of `budgets`"),
        "estimate": values.AMOUNT,
        "timeout": _TIMEOUT,
        "retry": RETRY,
        "max_attempts": _COUNT,
        "debounce": _LENGTH,
        "debounce_key": KEY,
        "note": text(),
    },
)

SCHEDULE = Group(
    fields={
        "kind": name(),
        "cron": CRON,
        "every": _LENGTH,
        "args": Table(of=ANY),
        "window": Many(of=values.CLOSING, exactly=2),
        "days": DAYS,
        "tz": ZONE,
        "exclude": Many(of=DATE),
        "jitter": _LENGTH,
        "overlap": choice(*get_args(Overlap)),
        "missed": choice(*get_args(Missed)),
        "most_missed": whole(1, 10_000),
        "grace": _LENGTH,
        "enabled": FLAG,
    },
)

DELIVERY = Group(
    describes="How ids of waiting jobs reach workers, if not by hints of the store: by Redis, or by Arq.",
    fields={
        "redis": REDIS_URL,
        "high": REDIS_URL,
        "low": REDIS_URL,
        "arq": REDIS_URL,
        "queue": text(),
        "prefix": name(),
        "shards": Many(
            of=Group(
                fields={
                    "name": name(),
                    "url": REDIS_URL,
                    "priorities": Many(of=whole(names.HIGHEST_PRIORITY, names.LOWEST_PRIORITY), exactly=2),
                    "weight": whole(1, HEAVIEST),
                },
                needed=("name", "url"),
            )
        ),
    },
    short=fixed("redis"),
)

SERVER = Group(
    describes="How `holdfast serve` listens, whom it believes, and how much it takes.",
    fields={
        "host": text(),
        "port": whole(0, 65_535),
        "title": text(60).or_none(),
        "instances": Table(of=values.SERVER_URL, key=text(60)),
        "url": values.WEB_URL.or_none(),
        "hosts": Many(of=text()),
        "proxies": Many(of=values.NETWORK),
        "user_header": text().or_none(),
        "role_header": text().or_none(),
        "users": Table(of=_ROLE),
        "default_role": _ROLE.or_none(),
        "session": _LENGTH,
        "max_body": whole(1_024, LARGEST_PAYLOAD),
        "allow_unknown": FLAG,
        "max_streams": _COUNT,
        "max_streams_each": _COUNT,
        "rate": RATE.or_none(),
    },
)

SECTIONS: dict[str, Shape] = {
    "app": text(),
    "store": STORE,
    "defaults": TASK_DEFAULTS,
    "worker": WORKER,
    "queues": Named(of=QUEUE, words={"preset": choice(*PRESETS)}, describes="Queues by name, and a ready `preset`."),
    "limits": Named(of=LIMIT, describes="Bounds that jobs share, by name."),
    "budgets": Named(of=BUDGET, describes="What jobs may spend, by name."),
    "channels": CHANNELS,
    "escalations": Named(of=ESCALATION, describes="Who is told of failures, by name of the policy."),
    "kinds": Named(of=KIND, describes="What holds for a kind of job, over what its task says."),
    "schedules": Named(of=SCHEDULE, describes="What runs by itself, by name; over what code says."),
    "services": Named(
        of=Group(fields={"interval": _LENGTH, "batch": whole(1, LARGEST_BATCH), "enabled": FLAG}),
        known=tuple(DEFAULTS),
        describes="How services run.",
    ),
    "delivery": DELIVERY,
    "leader": Group(
        describes="Where the leader is elected, if not in the store.",
        fields={"url": REDIS_URL, "key": text()},
        needed=("url",),
        short=fixed("url"),
    ),
    "webhooks": Group(
        describes="Where the ends of jobs may be posted to, and how they are signed.",
        fields={
            "secret": Many(of=SIGNING),
            "endpoints": Table(of=Many(of=SIGNING)),
            "allow": Many(of=WORD),
            "deadline": _LENGTH,
        },
    ),
    "server": SERVER,
    "telemetry": Group(
        describes="Which numbers are kept and which spans are made.", fields={"metrics": FLAG, "traces": FLAG}
    ),
}

ROOT = Group(fields=SECTIONS, describes="Everything that operators set of Holdfast.")
