"""Who had to wait judges nobody: the renewals of the living have waited as well."""

import asyncio

import pytest

from tests.races.rivals import Rivals
from tests.support.connections import running, until_held_up
from tests.support.wait import until

_WAITED = """
SELECT bool_or(clock_timestamp() - query_start > interval '1 second') FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0
"""


@pytest.mark.real_time  # the server itself measures how long the rescue has waited
@pytest.mark.guards("rescue-after-wait")
@pytest.mark.parametrize("table", ["jobs", "workers"])
async def test_a_rescue_that_had_to_wait_for_a_table_judges_nobody(rivals: Rivals, table: str) -> None:
    (job,) = await running(rivals.one, 1)
    await rivals.expire(job.worker)
    async with rivals.blocker.transaction():
        await rivals.blocker.execute(rivals.sql(f"LOCK TABLE holdfast.{table} IN ACCESS EXCLUSIVE MODE"))
        rescue = asyncio.create_task(rivals.two.rescue_jobs(100))
        await until_held_up(rivals.watcher, rivals.schema, rescue)

        async def has_waited() -> bool:
            return bool(await rivals.watcher.fetchval(_WAITED, rivals.schema))

        await until(has_waited, "the rescue has waited for longer than it may")
    rescued = await rescue
    assert (rescued.workers, rescued.requeued, rescued.looked_at) == (0, (), None)
    assert job.worker is not None
    assert job.worker in (await rivals.one.renew_workers([job.worker], 60_000)).alive, "it was only kept waiting"

    await rivals.expire(job.worker)
    assert (await rivals.two.rescue_jobs(100)).requeued == (job.id,), "who did not have to wait judges"
