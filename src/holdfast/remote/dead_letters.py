"""Dead letters and bulk runs, asked of a server."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.client.dead_letters import failed_jobs
from holdfast.duration import Duration, milliseconds
from holdfast.job import Job
from holdfast.remote import filters, shapes
from holdfast.remote.link import Link, refuse_actor
from holdfast.stores.bulk import COUNT_CAP, BulkRun, BulkState, BulkVerb, Due
from holdfast.stores.failures import DeadCursor, DeadLetter, DeadPage, group_id
from holdfast.stores.values import JobFilter

_MARK = "~"
_SECOND = 1_000_000  # microseconds


class RemoteDeadLetters:
    """The verbs of dead letters and bulk runs."""

    def __init__(self, link: Link) -> None:
        self.link = link

    async def dead_letters(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        empty: bool = False,
        limit: int = 100,
        after: DeadCursor | None = None,
    ) -> DeadPage:
        """Read one page of groups of failed jobs, the latest first."""
        start = None if after is None else f"{after.last_at.isoformat()}{_MARK}{after.id}"
        told = await self.link.get(
            "dead-letters", kind=kind, queue=queue, error=error, since=since, empty=empty, limit=limit, after=start
        )
        return DeadPage([shapes.dead_letter(group) for group in told["groups"]], _cursor(told["next"]))

    async def dead_letter(self, group: str) -> DeadLetter:
        """Read one group."""
        return shapes.dead_letter(await self.link.get("dead-letters", group))

    async def dead_jobs(
        self,
        group: str | None = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
    ) -> JobFilter:
        """Choose failed jobs: of a group, or by conditions that must all hold."""
        found = None if group is None else await self.dead_letter(group)
        return failed_jobs(found, kind=kind, queue=queue, error=error, since=since)

    async def export_dead_letters(self, which: JobFilter) -> AsyncIterator[dict[str, Any]]:
        """Go through failed jobs as plain values."""
        asked: dict[str, Any] = {
            "kind": which.kinds[0] if which.kinds else None,
            "queue": which.queues[0] if which.queues else None,
            "error": which.error_class,
            "since": which.finished_from,
        }
        if which.fingerprint is not None:
            asked["group"] = group_id(which.kinds[0], which.fingerprint)
        async with self.link.lines("dead-letters", "export", expected="application/x-ndjson", **asked) as lines:
            async for line in lines:
                if line:
                    yield msgspec.json.decode(line)

    async def replay_edited(self, job: int | str, changes: dict[str, Any], *, actor: str | None = None) -> Job:
        """Enqueue a finished job anew with other arguments."""
        refuse_actor(actor)
        shown = public_id.encode(job) if isinstance(job, int) else job
        return shapes.job(await self.link.post("jobs", shown, "replay", body={"args": changes}))

    # ---- bulk runs -------------------------------------------------------------------------------------------------

    async def preview_bulk(self, verb: BulkVerb, which: JobFilter) -> int:
        """Count the jobs that a run would change."""
        body = {"verb": verb.value, "q": filters.written(which)}
        told = await self.link.post("bulk", "preview", body=body)
        return COUNT_CAP if told["capped"] else int(told["jobs"])

    async def start_bulk(
        self,
        verb: BulkVerb,
        which: JobFilter,
        *,
        rate: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        run_in: Duration | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> BulkRun:
        """Start a run."""
        refuse_actor(actor)
        terms = {
            "rate": rate,
            "priority": priority,
            "run_at": run_at,
            "delay": run_in if run_in is None else milliseconds(run_in) / 1_000,
            "reason": reason,
        }
        return _run(await self.link.post("bulk", body={"verb": verb.value, "q": filters.written(which), **terms}))

    async def bulk_runs(self, limit: int = 100) -> list[BulkRun]:
        """Read the runs of the last 30 days."""
        return [_run(run) for run in (await self.link.get("bulk", limit=limit))["runs"]]

    async def bulk_run(self, run: int) -> BulkRun:
        """Read one run."""
        return _run(await self.link.get("bulk", str(run)))

    async def pause_bulk(self, run: int) -> BulkRun:
        """Let a run stand still."""
        return _run(await self.link.post("bulk", str(run), "pause"))

    async def resume_bulk(self, run: int) -> BulkRun:
        """Let it go on."""
        return _run(await self.link.post("bulk", str(run), "resume"))

    async def cancel_bulk(self, run: int) -> BulkRun:
        """End it."""
        return _run(await self.link.post("bulk", str(run), "cancel"))


def _cursor(text: str | None) -> DeadCursor | None:
    if text is None:
        return None
    at, _, group = text.partition(_MARK)
    return DeadCursor(shapes.instant(at), group)


def _run(told: shapes.Told) -> BulkRun:
    which = dict(told["which"])
    if "ids" in which:
        which["ids"] = [public_id.decode(job) for job in which["ids"]]
    names = ("priority", "actor", "reason", "done", "refused", "errors", "error")
    started_at = shapes.instant(told["started_at"])
    return BulkRun(
        id=int(told["id"]),
        verb=BulkVerb(told["verb"]),
        state=BulkState(told["state"]),
        which=msgspec.convert(which, JobFilter),
        **{name: told[name] for name in names},
        expected=COUNT_CAP if told["expected_capped"] else told["expected"],
        spacing_us=round(_SECOND / told["per_second"]) if told["per_second"] else 0,
        step=told["done"] + told["refused"],
        cursor=None,
        started_at=started_at,
        next_at=started_at,
        ended_at=shapes.moment(told["ended_at"]),
        due=_due(told),
    )


def _due(told: shapes.Told) -> Due | None:
    run_at, delay_ms = shapes.moment(told.get("run_at")), told.get("delay_ms")
    return None if run_at is None and delay_ms is None else Due(run_at, delay_ms)
