"""Waiting for the end of jobs: `jobs wait` and `enqueue --wait`.

The bars are drawn on stderr, so that stdout holds the answer alone; where stderr is no terminal, nothing is drawn.
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from holdfast.cli import bars, job_page, output
from holdfast.cli.exits import Exit, show_error
from holdfast.cli.live import drawn
from holdfast.client.jobs import missing
from holdfast.client.protocol import Client
from holdfast.duration import milliseconds
from holdfast.errors import HoldfastError, OutcomeUnknown, StoreUnavailable
from holdfast.job import JobState
from holdfast.public_id import decode
from holdfast.resources.job import Job
from holdfast.resources.redaction import redact

_LOOK_S = 0.2
_DRAWN = 10
_GOOD = (JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS)


class Watch:
    """Jobs that are waited for, as they were last seen."""

    def __init__(self, ids: Iterable[str], timeout_s: float | None) -> None:
        self.ids = list(dict.fromkeys(ids))
        self.timeout_s = timeout_s
        self.seen: dict[str, Job] = {}
        self.missing: set[str] = set()
        self.problem: HoldfastError | None = None
        self.is_interrupted = False

    @property
    def awaited(self) -> list[str]:
        """Those that have not ended yet."""
        return [job for job in self.ids if job not in self.missing and not self._has_ended(job)]

    async def look(self, client: Client) -> None:
        """Look at them once; the end of a job is final here, whatever becomes of it later."""
        awaited = self.awaited
        found = await client.jobs.get_many(awaited)
        self.missing.update(job for job in awaited if job not in found)
        self.seen |= found
        self.problem = None

    def _has_ended(self, job: str) -> bool:
        return job in self.seen and self.seen[job].is_finished


def read_timeout(given: str | None, option: str) -> float | None:
    """Read how long to wait, in seconds."""
    return None if given is None else milliseconds(given, option) / 1_000


async def until_ended(client: Client, watch: Watch) -> None:
    """Wait until the jobs have ended or the time is over; a store that is away for a while ends no wait."""
    with drawn(sys.stderr) as draw:
        await watch.look(client)
        limit = asyncio.timeout(watch.timeout_s)
        try:
            async with limit:
                while watch.awaited:
                    if draw is not None:
                        draw(bars.of_jobs([watch.seen[job] for job in watch.awaited], _DRAWN))
                    await asyncio.sleep(_LOOK_S)
                    await _look_again(client, watch)
        except TimeoutError:
            if not limit.expired():
                raise


async def _look_again(client: Client, watch: Watch) -> None:
    try:
        await watch.look(client)
    except (StoreUnavailable, OutcomeUnknown) as error:
        if watch.problem is None:
            output.note(f"the store does not answer, still waiting: {output.without_passwords(str(error))}")
        watch.problem = error


@contextmanager
def interruptible(watch: Watch) -> Iterator[None]:
    """Let Ctrl-C end the waiting, once it is known what is waited for."""
    try:
        yield
    except KeyboardInterrupt:
        if not watch.ids:
            raise
        watch.is_interrupted = True


# ---- what became of them -------------------------------------------------------------------------------------------


def tell(watch: Watch, *, as_json: bool, is_named: bool = True) -> int:
    """Print how the jobs ended (with `as_json` only what went wrong); the answer is the highest exit code."""
    worst = int(Exit.OK)
    for job_id in watch.ids:
        found = watch.seen.get(job_id)
        if job_id in watch.missing:
            worst = max(worst, Exit.NOT_FOUND)
            show_error(missing(decode(job_id)), Exit.NOT_FOUND, kind="JobNotFound", as_json=as_json)
        elif found is not None and found.is_finished:
            worst = max(worst, Exit.OK if found.state in _GOOD else Exit.JOB_FAILED)
            if not as_json:
                _write(found, is_named=is_named)
        elif watch.is_interrupted:
            worst = max(worst, Exit.INTERRUPTED)
            output.note(f"stopped waiting: job {job_id} goes on{_standing(found)}")
        else:
            worst = max(worst, Exit.TIMEOUT)
            show_error(_late(watch, job_id, found), Exit.TIMEOUT, kind="ResultTimeout", as_json=as_json)
    return worst


def _write(job: Job, *, is_named: bool) -> None:
    name = (f"{job.id} ", "bold") if is_named else ("", "")
    output.styled(name, (job.state, output.STATE_STYLES[job.state]), (_told(job), ""))


def _told(job: Job) -> str:
    """Say what the job left: its result, or why it has none."""
    if job.state in _GOOD:
        result = redact(job).result
        return "" if result is None else f" {output.indented(msgspec.json.encode(result), 0)}"
    detail = job_page.detail(job, None)
    return f" {detail}" if detail else ""


def _late(watch: Watch, job_id: str, found: Job | None) -> str:
    message = (
        f"job {job_id} had not finished after {watch.timeout_s:g} s{_standing(found)}; it goes on: wait again, or see"
    )
    message += f" `jobs show {job_id}`"
    return message if watch.problem is None else f"{message} (the store did not answer: {watch.problem})"


def _standing(found: Job | None) -> str:
    return "" if found is None else f" ({found.state})"
