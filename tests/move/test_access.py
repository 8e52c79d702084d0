"""Tokens hold where the jobs come to, and what was done can be read there."""

import pytest

from holdfast.errors import StoreMoved
from holdfast.moving.move import Wishes, move
from holdfast.moving.sides import Side
from holdfast.stores.access import AuditFilter, NewAuditEntry
from tests.conformance.test_access import new
from tests.move.test_following import sides
from tests.move.test_move import TO, quiet

__all__ = ["sides"]


def deed(action: str) -> NewAuditEntry:
    return NewAuditEntry(
        actor="ada",
        role="admin",
        action=action,
        target="/queues/high",
        queue="high",
        status=200,
        detail='{"reason": "it\'s full"}',
        request="r1",
    )


@pytest.mark.parametrize("with_history", [True, False])
async def test_tokens_hold_where_the_jobs_come_to(sides: tuple[Side, Side], with_history: bool) -> None:
    source, target = sides
    own = await target.add_token(new(digest="own"))
    await target.add_audit(deed("theirs"))
    token = await source.add_token(new(digest="token", queues=("high", "low"), lasts_ms=None))
    gone = await source.add_token(new(digest="gone"))
    await source.revoke_token(gone.id, actor="ada")
    await source.add_token(new("session", "session", parent=token.id))
    for action in ("pause", "resume"):
        await source.add_audit(deed(action))
    await move(source, target, Wishes(TO.to, with_history=with_history), quiet)
    found = await target.find_token("token")
    assert found is not None
    assert (found.queues, found.role, found.expires_at) == (("high", "low"), "operator", None)
    numbers = [row.id for row in await target.list_tokens("token")]
    assert [number - found.id for number in numbers] == [0, own.id - found.id, gone.id - token.id]
    assert [await target.find_token(digest) is not None for digest in ("own", "gone", "session")] == [
        True,
        False,
        False,
    ]
    deeds = await target.list_audit(AuditFilter(), limit=9)
    assert [row.action for row in deeds] == (["resume", "pause", "theirs"] if with_history else ["theirs"])
    assert deeds[0].detail == deeds[-1].detail
    assert await source.find_token("token") is not None, "people may still look at what was left"
    await source.add_audit(deed("late"))
    with pytest.raises(StoreMoved):
        await source.revoke_token(token.id, actor="late")
    with pytest.raises(StoreMoved):
        await source.add_token(new(digest="late"))
