"""`holdfast stats`."""

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast import ages
from holdfast.cli import options, output
from holdfast.cli.connect import with_store
from holdfast.cli.grammar import Verb
from holdfast.cli.output import Cell, Column
from holdfast.cli.tables import Attribute, ResourceTable
from holdfast.job import JobState
from holdfast.resources.job import ItemSet
from holdfast.resources.stats import ORG_TAG, PROJECT_TAG, ActiveJob, Stats
from holdfast.stores.answers import LISTED, SLOW

_STATES = ("completed", "skipped", "failed", "in_progress")
_ACTIVE = ResourceTable[ActiveJob](
    Attribute("ID", lambda job: job.id),
    Attribute("KIND", lambda job: job.kind, is_flexible=True),
    Attribute("QUEUE", lambda job: job.queue, is_flexible=True),
    Attribute("HOST", lambda job: job.host, is_flexible=True),
    Attribute("PHASE", lambda job: job.phase, is_flexible=True),
    Attribute("PROGRESS", lambda job: None if job.percent is None else f"{job.percent:.0f} %", is_number=True),
    Attribute("SINCE", lambda job: job.since),
)


@click.command("stats", cls=Verb, examples=("", "--project 7 --phase editions", "--org-tag tenant", "--json"))
@click.option("--project", metavar="ID", help="Of items, show only the jobs of this project.")
@click.option("--phase", metavar="NAME", help="Of items, show only the jobs that are in this phase.")
@click.option("--org-tag", metavar="TAG", default=ORG_TAG, show_default=True, help="The tag with an organisation's id.")
@click.option("--project-tag", metavar="TAG", default=PROJECT_TAG, show_default=True, help="That with a project's id.")
@options.number("--limit", 20, "Lines of each list.", most=LISTED)
@options.as_json
@click.pass_context
def stats(
    ctx: click.Context,
    *,
    project: str | None,
    phase: str | None,
    org_tag: str,
    project_tag: str,
    limit: int,
    as_json: bool,
) -> None:
    """Answer what operators ask first.

    How many jobs wait, by kind; what runs, and for how long; which items are worked on; how many jobs failed and how
    many completed in the last hour; which have been running for more than 10 minutes. Of each, 10,000 jobs are looked
    at; with more, a number ends in "+".
    """
    found = with_store(
        ctx,
        lambda session: session.client.jobs.stats(
            project=project, phase=phase, org_tag=org_tag, project_tag=project_tag
        ),
    )
    if as_json:
        output.write_json(found)
        return
    _write_backlog(found, limit)
    _write_active(found, limit)
    _write_items(found.items, limit)
    _write_errors(found)
    _write_throughput(found, org_tag, limit)
    _write_slow(found, limit)


def _write_backlog(found: Stats, limit: int) -> None:
    more = _more(found, "backlog")
    waiting = min(sum(kind.jobs for kind in found.backlog), LISTED)
    output.styled((f"backlog: {_jobs(waiting, 'waits', 'wait', more)}", "bold"))
    rows = [[Cell(kind.kind), Cell(f"{kind.jobs:,}{more}", f"{kind.jobs}{more}")] for kind in found.backlog]
    _table((Column("KIND", is_flexible=True), Column("JOBS", is_number=True)), rows, limit, len(rows))


def _write_active(found: Stats, limit: int) -> None:
    output.title(f"active work: {_jobs(found.active.count, 'runs', 'run', _more(found, 'active'))}")
    _write_jobs(found.active.jobs, found.active.count, found.at, limit)


def _write_slow(found: Stats, limit: int) -> None:
    count = _jobs(found.slow.count, "has", "have", _more(found, "active"))
    output.title(f"slow jobs: {count} been running for more than {ages.span(SLOW)}")
    _write_jobs(found.slow.jobs, found.slow.count, found.at, limit)


def _write_jobs(jobs: Sequence[ActiveJob], count: int, now: datetime, limit: int) -> None:
    _table(*_ACTIVE.of(jobs[:limit], now), limit, count)


def _write_items(jobs: Sequence[ActiveJob], limit: int) -> None:
    output.title(f"items: {_jobs(len(jobs), 'works', 'work')} on them")
    columns = (
        Column("ID"),
        Column("KIND", is_flexible=True),
        Column("PROJECT", is_flexible=True),
        Column("PHASE", is_flexible=True),
        Column("ITEMS", is_flexible=True),
        *(Column(state.upper(), is_number=True) for state in _STATES),
    )
    rows = [
        [
            Cell(job.id),
            Cell(job.kind),
            Cell(job.project or ""),
            Cell(job.phase or ""),
            Cell(name),
            *(Cell(str(getattr(counts, state))) for state in _STATES),
        ]
        for job in jobs
        for name, counts in sorted((job.items or {"": ItemSet()}).items())
    ]
    _table(columns, rows[:limit], limit, len(rows))


def _write_errors(found: Stats) -> None:
    failed, finished = found.errors.jobs, found.errors.finished
    share = f" ({failed / finished:.1%})" if finished else ""
    output.title(f"errors in the last hour: {failed:,} of {_jobs(finished, 'that finished', 'that finished')}{share}")


def _write_throughput(found: Stats, org_tag: str, limit: int) -> None:
    more = _more(found, "throughput")
    by_state = found.errors.by_state
    completed = by_state.get(JobState.COMPLETED, 0) if more else sum(org.jobs for org in found.throughput)
    output.title(f"throughput in the last hour: {_jobs(completed, 'completed', 'completed')}")
    rows = [
        [Cell(org.org or "(none)", org.org or ""), Cell(f"{org.jobs:,}{more}", f"{org.jobs}{more}")]
        for org in found.throughput
    ]
    _table((Column(org_tag.upper(), is_flexible=True), Column("JOBS", is_number=True)), rows[:limit], limit, len(rows))


def _table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], limit: int, count: int) -> None:
    """Print a list, if there is something on it, and say what was left out."""
    if rows:
        output.table(columns, rows[:limit])
    if count > limit:
        output.line(f"and {count - limit:,} more: give a higher --limit, or --json")


def _more(found: Stats, answer: str) -> str:
    """What follows a number that means "this many or more"."""
    return "+" if answer in found.capped else ""


def _jobs(count: int, one: str, many: str, more: str = "") -> str:
    return f"1 job {one}" if count == 1 and not more else f"{count:,}{more} jobs {many}"
