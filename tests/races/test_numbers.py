"""Numbers that a move keeps free: whoever has drawn one and not committed yet is waited for."""

import asyncio

from holdfast.stores.moving import MoveProgress
from tests.races.rivals import Rivals
from tests.support.connections import until_held_up

OWN = """
INSERT INTO holdfast.escalations (policy, stage, source, queue, kind, fingerprint, title, count, first_at, last_at)
VALUES ('ops', 'ops', 'failed', 'q', 'k', 'f', 't', 1, now(), now())
RETURNING id
"""


async def test_a_number_that_is_drawn_and_not_committed_is_waited_for(rivals: Rivals) -> None:
    progress = MoveProgress("0c", 0, "test")
    await rivals.one.take_progress(progress)
    transaction = rivals.blocker.transaction()
    await transaction.start()
    own = await rivals.blocker.fetchval(rivals.sql(OWN))
    taking = asyncio.ensure_future(rivals.one.take_numbers({"escalations": own + 2}, progress))
    await until_held_up(rivals.watcher, rivals.schema, taking)
    await transaction.commit()
    shifts = (await taking).shifts or {}
    assert shifts["escalations"] >= own, "what comes is numbered behind it"
    (kept,) = [one for one in await rivals.one.move_progress() if one.id == progress.id]
    assert kept.shifts == shifts
    later = await rivals.blocker.fetchval(rivals.sql(OWN.replace("'f'", "'g'")))
    assert later > shifts["escalations"] + own + 2, "and what is made there later, behind that"
