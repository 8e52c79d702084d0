"""What workers ask, on PostgreSQL."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from holdfast.job import JobRow
from holdfast.rollup import Rollup
from holdfast.stores.postgres import rows
from holdfast.stores.postgres.role import Role
from holdfast.stores.values import DONE, Claim, Finish, ProgressReport, Started, Verdict, Worked
from holdfast.transitions import Transition, Verb


class PostgresWork(Role):
    """The verbs of `WorkStore`."""

    is_remote: ClassVar[bool] = True

    async def claim_jobs(self, claim: Claim) -> list[JobRow]:
        found = await self.fetch("claim_jobs", *_claim_columns(claim)[:-1])
        return _in_claim_order(claim, [rows.job(row[: rows.LIVE_COLUMNS]) for row in found])

    async def claim_jobs_by_id(self, claim: Claim, ids: Sequence[int]) -> list[JobRow]:
        found = await self.fetch("claim_jobs_by_id", claim.worker, claim.batch, claim.limit, ids)
        return _in_order(ids, [rows.job(row[: rows.LIVE_COLUMNS]) for row in found])

    async def give_back_batch(self, worker: int, batch: int) -> int:
        return int(await self.fetch_value("give_back_batch", worker, batch))

    async def start_jobs(self, starts: Sequence[Started]) -> list[Verdict]:
        ordered = sorted(starts, key=lambda start: start.id)
        found = await self.fetch(
            "start_jobs",
            [start.id for start in ordered],
            [start.claim for start in ordered],
            [start.started_ago_ms for start in ordered],
        )
        ours = {row[0] for row in found}
        return [Verdict.DONE if start.id in ours else Verdict.LOST for start in starts]

    async def finish_jobs(
        self, transitions: Sequence[Transition], *, rollups: Sequence[Rollup] = (), claim: Claim | None = None
    ) -> Worked:
        # Sorted, so that every process locks rows in the same order.
        ordered = sorted(transitions, key=lambda transition: transition.id)
        require_distinct(ordered)
        ids = [transition.id for transition in ordered]
        encoded = msgspec.json.encode(rollups).decode() if rollups else None
        ended, claims, verbs, states, *others = transition_columns(ordered)
        shared = (rows.once(claims), rows.once(verbs), rows.once(states))
        args = (ended, *shared, *others, encoded, *(_claim_columns(claim) if claim else (None,) * 8))
        found = await self.fetch("finish_jobs", *args)
        verdicts = found[0]["verdicts"] or []
        by_id = dict(zip(ids, verdicts, strict=True))
        claimed = [rows.job(row[2 : 2 + rows.LIVE_COLUMNS]) for row in found[1:]]
        return Worked(
            [read_verdict(by_id[transition.id]) for transition in transitions],
            _in_claim_order(claim, claimed) if claim else [],
            worker_lost=found[0]["worker_lost"],
        )

    async def fail_refused(self, transition: Transition) -> Finish:
        why = transition.failure
        told = (None,) * 4 if why is None else (why.error_class, why.message, why.traceback, why.fingerprint)
        claim = (transition.id, transition.claim)
        return read_verdict(await self.fetch_value("fail_refused", *claim, *told, transition.started_ago_ms))

    async def save_progress(self, reports: Sequence[ProgressReport]) -> list[Verdict]:
        ordered = sorted(reports, key=lambda report: report.id)
        done = await self.fetch_value(
            "save_progress",
            [report.id for report in ordered],
            [report.claim for report in ordered],
            [report.percent for report in ordered],
            [report.message for report in ordered],
            [report.data for report in ordered],
            rows.or_empty([report.phase for report in ordered]),
            rows.or_empty([report.phase_percent for report in ordered]),
            rows.or_empty([report.changes for report in ordered]),
        )
        ours = {report.id: kept for report, kept in zip(ordered, done, strict=True)}
        return [Verdict.DONE if ours[report.id] else Verdict.LOST for report in reports]

    async def cancelled_claims(self, worker: int) -> list[tuple[int, int]]:
        return [(row[0], row[1]) for row in await self.fetch("cancelled_claims", worker)]


def _claim_columns(claim: Claim) -> tuple[object, ...]:
    return (
        claim.worker,
        claim.batch,
        claim.limit,
        [lane.queue for lane in claim.lanes],
        [lane.priority for lane in claim.lanes],
        [lane.limit for lane in claim.lanes],
        [lane.after for lane in claim.lanes],
        claim.ids or None,
    )


def require_distinct(transitions: Sequence[Transition]) -> None:
    """Refuse a job that is named twice, of which only one end could be true."""
    if len({transition.id for transition in transitions}) != len(transitions):
        message = "a job is named twice in one finish: fold its writes into one"
        raise ValueError(message)


def transition_columns(transitions: Sequence[Transition]) -> tuple[list[object], ...]:
    """Spread transitions over the arrays that the functions of the schema take.

    An array of nulls is sent empty, which means the same there: asyncpg looks long at every element.
    """
    is_plain = all(transition.verb is Verb.COMPLETE for transition in transitions)
    failures = [] if is_plain else [transition.failure for transition in transitions]
    return (
        [transition.id for transition in transitions],
        [transition.claim for transition in transitions],
        [transition.verb.value for transition in transitions],
        [transition.state.value for transition in transitions],
        [] if is_plain else [transition.delay_ms for transition in transitions],
        rows.or_empty([transition.result for transition in transitions]),
        rows.or_empty([failure.error_class if failure else None for failure in failures]),
        rows.or_empty([failure.message if failure else None for failure in failures]),
        rows.or_empty([failure.traceback if failure else None for failure in failures]),
        rows.or_empty([failure.fingerprint if failure else None for failure in failures]),
        [transition.started_ago_ms for transition in transitions],
    )


def read_verdict(verdict: str | None) -> Finish:
    """Read what `finish_jobs` of the schema answers for one job."""
    if verdict is None:
        return Finish(Verdict.LOST, None)
    if verdict.startswith("="):
        return Finish(Verdict.ALREADY, rows.state(verdict[1:]))
    return DONE[rows.state(verdict)]


def _in_claim_order(claim: Claim, jobs: list[JobRow]) -> list[JobRow]:
    if claim.ids:
        return _in_order(claim.ids, jobs)
    place = {(lane.queue, lane.priority): index for index, lane in enumerate(claim.lanes)}
    jobs.sort(key=lambda job: job.position or 0)
    if len({(job.queue, job.priority) for job in jobs}) > 1:
        jobs.sort(key=lambda job: place[job.queue, job.priority])  # which keeps the order within a lane
    return jobs


def _in_order(ids: Sequence[int], jobs: list[JobRow]) -> list[JobRow]:
    place = {job_id: index for index, job_id in enumerate(ids)}
    return sorted(jobs, key=lambda job: place[job.id])
