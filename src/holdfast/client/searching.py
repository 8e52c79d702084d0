"""Looking for jobs as people do: with a filter, within a moment."""

from datetime import UTC, datetime

from holdfast import filtering, names
from holdfast.client.cursors import read_cursor
from holdfast.client.jobs import EVERY_JOB, LARGEST_PAGE, stored_filter
from holdfast.client.repeat import until_answered
from holdfast.filtering import Query
from holdfast.stores.searching import BUDGET_MS, COUNT_CAP, COUNTING_MS, SearchStore
from holdfast.stores.values import Counted, Cursor, Found, JobFilter

Which = JobFilter | Query | str
"""A filter: as values, as it was read, or as it is written."""


class SearchVerbs:
    """The verbs of searches, on one store."""

    def __init__(self, store: SearchStore, deadline_s: float) -> None:
        self._search_store = store
        self._search_deadline_s = deadline_s

    async def search(self, which: Which = EVERY_JOB, *, limit: int = 50, after: Cursor | str | None = None) -> Found:
        """Find the newest jobs that fit a filter such as `"kind:send_email state:failed since:1h"`.

        It takes a moment and no longer: arguments and text are searched newest first, and when the time is over the
        answer is what was found so far, how far back that is, and where to go on. `after` is the `next` of an answer.
        """
        names.count(limit, "limit", LARGEST_PAGE)
        wanted = meant(which)
        start = read_cursor(after) if isinstance(after, str) else after
        return await until_answered(
            lambda _: self._search_store.search_jobs(wanted, limit=limit, after=start, budget_ms=BUDGET_MS),
            self._search_deadline_s,
            "search",
            changes=False,
        )

    async def count(self, which: Which = EVERY_JOB, *, most: int = COUNT_CAP) -> Counted:
        """Count the jobs that fit a filter, at most so many and for a moment: `capped` says "this many or more"."""
        names.count(most, "most")
        wanted = meant(which)
        return await until_answered(
            lambda _: self._search_store.count_found(wanted, most=most, budget_ms=COUNTING_MS),
            self._search_deadline_s,
            "count",
            changes=False,
        )


def meant(which: Which) -> JobFilter:
    """Read a filter, and write its names as they are stored."""
    if isinstance(which, str):
        which = filtering.parse(which, datetime.now(UTC))
    return stored_filter(which.where if isinstance(which, Query) else which)
