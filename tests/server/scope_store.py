"""A store with something of everything in one queue, and what each route is sent to show it or to change it."""

from typing import Any

from holdfast import Escalation, Holdfast, Queue
from holdfast.policies.channels import Slack
from holdfast.resources.bulk import BulkVerb
from holdfast.stores.access import NewAuditEntry
from holdfast.stores.alarms import Alarm
from holdfast.stores.values import JobFilter, WorkerProcess
from tests.support import raw
from tests.support.web import made
from tests.support.workers import MakeApp, drained

THEIRS, MINE = "theirs-xcanaryx", "mine"
CANARY = "xcanaryx"
FAILS, WAITS = f"fails_{CANARY}", f"waits_{CANARY}"
_FAILED_JOBS = 20
_POLICY = "ops"

_NEW = {"name": f"new-{CANARY}", "kind": WAITS}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/api/v1/jobs"): {"kind": WAITS},
    ("POST", "/api/v1/jobs/batch"): {"jobs": [{"kind": WAITS}, {"kind": WAITS, "queue": THEIRS}]},
    ("POST", "/api/v1/jobs/{id}/reschedule"): {"delay": "1h"},
    ("POST", "/api/v1/jobs/{id}/reprioritise"): {"priority": 1},
    ("POST", "/api/v1/bulk/preview"): {"verb": "cancel", "q": f"queue:{THEIRS}"},
    ("POST", "/api/v1/bulk"): {"verb": "cancel", "q": f"queue:{THEIRS}"},
    ("PUT", "/api/v1/queues/{name}/settings/{field}"): {"value": 7},
    ("POST", "/api/v1/schedules"): {**_NEW, "cron": "0 4 * * *"},
    ("PATCH", "/api/v1/schedules/{name}"): {"cron": "0 5 * * *"},
    ("POST", "/api/v1/dead-letters/replay"): {"kind": FAILS},
    ("POST", "/api/v1/dead-letters/purge"): {"kind": FAILS},
    ("POST", "/api/v1/escalations/{number}/snooze"): {"lasts": "1h"},
    ("POST", "/api/v1/tokens"): {"name": "new", "queues": [THEIRS]},
}
"""The JSON bodies of the API, where it takes one."""

_KIND = {"kind": FAILS, "fingerprint": f"ValueError: {CANARY}"}
FORMS: dict[str, dict[str, str]] = {
    "/jobs/bulk": {"verb": "cancel", "q": f"queue:{THEIRS}", "all": "1"},
    "/dead-letters/replay": {"kind": FAILS},
    "/dead-letters/purge": {"kind": FAILS, "confirmation": FAILS},
    "/dead-letters/{group}/{job}/edit": {"arguments": "{}"},
    "/failures/{verb}": _KIND,
    "/jobs/{job}/clone": {"args": "{}"},
    "/queues/{queue}/set": {"field": "workers", "value": "7"},
    "/queues/{queue}/reset": {"field": "workers"},
    "/schedules": {"name": f"page-{CANARY}", "kind": WAITS, "cron": "0 4 * * *"},
    "/schedules/{name}/edit": {"cron": "0 5 * * *"},
    "/system/tokens": {"name": "new", "queues": THEIRS},
}
"""The forms of pages, where one has fields that must be filled in."""

QUERIES = {"/jobs/bulk": FORMS["/jobs/bulk"], "/failures/{verb}": _KIND}
"""What a page is asked with that shows what would be changed."""


def canary_app(make: MakeApp) -> Holdfast:
    """Make an app whose tasks run in two queues."""
    app = make(
        queues=[Queue(THEIRS, description=CANARY), Queue(MINE)],
        channels={"chat": Slack(url="http://127.0.0.1:9/hook")},
        escalations=[Escalation(name=_POLICY, channels=["chat"])],
    )

    @app.task(kind=FAILS, queue=THEIRS, max_attempts=1)
    async def fails() -> None:
        raise ValueError(CANARY)

    @app.task(kind=WAITS, queue=THEIRS)
    async def waits() -> None: ...

    @app.task(kind="own", queue=MINE)
    async def own() -> None: ...

    return app


class Stock:
    """Gives each request something of its own to act on, all of it in the queue of others."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._failed: list[str] = []
        self._group = ""
        self._worker = 0
        self._made = 0
        self._used = 0

    async def fill(self) -> None:
        """Put into the store what cannot be made one by one."""
        app = self._app
        self._failed = [(await app.tasks.get(FAILS).enqueue()).id for _ in range(_FAILED_JOBS)]
        await drained(app)
        (group,) = (await app.dead_letters.list()).groups
        self._group = group.id
        for queues in ((THEIRS, MINE), (THEIRS,)):
            info = WorkerProcess(instance="i", host="h", pid=1, queues=queues, concurrency=1)
            self._worker = await app.store.register_worker(info, 600_000)
        await app.store.define_escalations([_POLICY])
        await app.queues.pause(THEIRS, reason=CANARY)
        await app.store.add_audit(
            NewAuditEntry(
                actor=CANARY, role="", action="a", target="t", queue=THEIRS, status=200, detail="{}", request="r"
            )
        )
        await app.tasks.get("own").using(delay="1h").enqueue()
        await app.tasks.get(WAITS).using(delay="1h", tags={"a": CANARY}, actor=CANARY).enqueue()
        for path in ("/schedules/{name}", "/escalations/{number}", "/bulk/{operation}", "/tokens/{number}"):
            await self.named(path)

    async def named(self, path: str) -> dict[str, str]:
        """Make what a path names; the answer fills its places."""
        self._made += 1
        found = {"queue": THEIRS, "kind": WAITS, "group": self._group, "field": "workers", "policy": _POLICY}
        found |= {"resource": "jobs", "verb": "retry", "worker": str(self._worker), "number": str(self._worker)}
        if "{id}" in path or "{job}" in path:
            found["id"] = found["job"] = await self._job(path)
        if "/schedules/" in path:
            found["name"] = await self._schedule()
        elif "/queues/" in path:
            found["name"] = THEIRS
        if "/escalations/{number}" in path:
            found["number"] = await self._escalation()
        elif "/tokens/" in path:
            found["number"] = str((await made(self._app, "viewer", queues=(THEIRS,), name=CANARY))[1].id)
        if "{operation}" in path:
            found["operation"] = await self._run(is_paused=path.endswith("/resume"))
            found["verb"] = "pause"
        return found

    async def _job(self, path: str) -> str:
        """A job that waits for verbs of waiting jobs, else one that has failed."""
        if path.endswith(("/cancel", "/reschedule", "/reprioritise", "/run")):
            return (await self._app.tasks.get(WAITS).using(delay="1h").enqueue()).id
        self._used += 1
        return self._failed[self._used % len(self._failed)]

    async def _schedule(self) -> str:
        made_here = await self._app.schedules.create(
            f"s{self._made}-{CANARY}", self._app.tasks.get(WAITS).call(), cron="0 3 * * *"
        )
        return made_here.name

    async def _escalation(self) -> str:
        store = self._app.store
        mark = f"f{self._made}"
        alarm = Alarm(source="failed", title=CANARY, policy=_POLICY, queue=THEIRS, kind=mark, fingerprint=mark)
        await raw.raise_alarm(store, alarm)
        await store.fold_alarms({_POLICY: ("failed",)}, 10)
        return (await self._app.escalations.list(limit=1)).escalations[0].id

    async def _run(self, *, is_paused: bool) -> str:
        client = self._app.client
        run = await client.bulk.start(BulkVerb.CANCEL, JobFilter(queues=(THEIRS,), kinds=("nothing",)), reason=CANARY)
        if is_paused:
            await client.bulk.pause(run.id)
        return str(run.id)


async def contents(app: Holdfast, without: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Read every row of every table, but for what looking itself measures."""
    found: dict[str, list[str]] = {}
    for table in raw.TABLES:
        names = await raw.column(app.store, f"SELECT name FROM pragma_table_info('holdfast_{table}')")
        if not names or table in without:  # those without columns are views
            continue
        row = ", ".join(f"'{name}', {name}" for name in names if name not in ("gauge_at", "measured_at"))
        found[table] = sorted(await raw.column(app.store, f"SELECT json_array({row}) FROM holdfast.{table}"))
    return found
