"""Several measure the lanes at once while jobs come and go."""

import asyncio

from tests.races.rivals import Rivals
from tests.support.connections import insert
from tests.support.sizes import size


async def test_two_who_measure_at_once_agree(rivals: Rivals) -> None:
    """Each writes the same rows, some anew and some emptied; none fails, and the last look is right."""
    for _ in range(size(10, 100)):
        ids = await insert(rivals.one, 5)
        await asyncio.gather(
            *(store.measure_lanes() for store in (rivals.one, rivals.two) * 3),
            rivals.one.cancel_jobs(ids, actor=None, reason=None),
        )
    assert {gauge.jobs for gauge in await rivals.one.measure_lanes()} == {0}
    await insert(rivals.one, 3)
    measured = await asyncio.gather(*(store.measure_lanes() for store in (rivals.one, rivals.two)))
    assert [[gauge.jobs for gauge in gauges] for gauges in measured] == [[3], [3]]
