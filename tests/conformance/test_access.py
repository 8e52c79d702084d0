"""Ways in hold as long as they should, and what was done can be read again."""

import msgspec
import pytest

from holdfast.stores.access import AuditFilter, NewAuditEntry, NewToken, TokenKind, TokenRow
from holdfast.stores.store import Store
from tests.support.clock import Clock

HOUR_MS = 3_600_000


def new(kind: TokenKind = "token", digest: str = "d", **changes: object) -> NewToken:
    """A way in for one hour."""
    fields: dict[str, object] = {
        "kind": kind,
        "name": "deploy",
        "digest": digest,
        "hint": "abcd",
        "role": "operator",
        "queues": None,
        "created_by": "ada",
        "lasts_ms": HOUR_MS,
    }
    return NewToken(**(fields | changes))  # type: ignore[arg-type]  # the fields are those of the struct


async def found(store: Store, digest: str = "d") -> TokenRow | None:
    return await store.find_token(digest, lasts_ms=HOUR_MS)


async def test_a_token_holds_until_it_expires(store: Store, clock: Clock) -> None:
    made = await store.add_token(new(queues=("high", "low")))
    assert (made.role, made.queues, made.hint, made.used_at) == ("operator", ("high", "low"), "abcd", None)
    assert await found(store, "other") is None
    known = await found(store)
    assert known is not None
    assert known.id == made.id
    (listed,) = await store.list_tokens("token")
    assert listed.used_at == clock.now
    await clock.advance(milliseconds=HOUR_MS)
    assert await found(store) is None
    for digest in ("younger", "youngest"):
        await store.add_token(new(digest=digest))
    await store.revoke_token(made.id + 2, actor="ada")
    listed_ids = [one.id - made.id for one in await store.list_tokens("token")]
    assert listed_ids == [1, 2, 0], "however many have ended, those that hold are found"
    assert [one.id for one in await store.list_tokens("token", number=made.id + 2)] == [made.id + 2]
    assert await store.list_tokens("session", number=made.id) == []


async def test_a_token_without_an_end_holds(store: Store, clock: Clock) -> None:
    await store.add_token(new(lasts_ms=None))
    await clock.advance(days=1_000)
    assert await found(store) is not None


async def test_whether_there_is_a_token_that_holds(store: Store, clock: Clock) -> None:
    assert not await store.has_token()
    for kind in ("session", "link"):
        await store.add_token(new(kind, kind))
    assert not await store.has_token()
    await store.add_token(new())
    assert await store.has_token()
    await clock.advance(milliseconds=HOUR_MS)
    assert not await store.has_token(), "it has expired"
    made = await store.add_token(new(digest="e", lasts_ms=None))
    assert await store.has_token()
    await store.revoke_token(made.id, actor="ada")
    assert not await store.has_token()


async def test_a_session_lasts_while_it_is_used_and_ends_with_its_token(store: Store, clock: Clock) -> None:
    token = await store.add_token(new(lasts_ms=None))
    await store.add_token(new("session", "s", parent=token.id))
    for _ in range(3):
        await clock.advance(milliseconds=HOUR_MS - 1)
        assert await found(store, "s") is not None
    revoked = await store.revoke_token(token.id, actor="ada")
    assert revoked is not None
    assert (revoked.revoked_at, revoked.revoked_by) == (clock.now, "ada")
    assert (await found(store), await found(store, "s")) == (None, None)


async def test_a_session_ends_when_its_token_expires(store: Store, clock: Clock) -> None:
    token = await store.add_token(new(lasts_ms=HOUR_MS))
    await store.add_token(new("session", "s", parent=token.id, lasts_ms=2_000 * HOUR_MS))
    await clock.advance(milliseconds=HOUR_MS)
    assert await found(store, "s") is None
    await clock.advance(days=31)
    await store.prune_access(100)
    assert await store.list_tokens("token") == []
    assert await found(store, "s") is None, "that nobody knows of its token any more revives nothing"


async def test_a_link_lets_in_once(store: Store, clock: Clock) -> None:
    await store.add_token(new("link", "l", lasts_ms=60_000))
    assert await found(store, "l") is None, "it is no token"
    assert await store.use_link("l") is not None
    assert await store.use_link("l") is None
    await store.add_token(new("link", "late", lasts_ms=60_000))
    await clock.advance(minutes=1)
    assert await store.use_link("late") is None


async def test_revoking_what_is_not_there_says_so(store: Store) -> None:
    assert await store.revoke_token(4_711, actor="ada") is None


@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_what_ended_is_forgotten_after_a_month(store: Store, clock: Clock, how: str) -> None:
    made = await store.add_token(new(lasts_ms=None if how == "revoked" else HOUR_MS))
    await store.add_token(new(digest="kept", lasts_ms=None))
    if how == "revoked":
        await store.revoke_token(made.id, actor="ada")
    await clock.advance(days=29)
    await store.prune_access(100)
    assert len(await store.list_tokens("token")) == 2
    await clock.advance(days=2)
    await store.prune_access(100)
    assert [one.id for one in await store.list_tokens("token")] == [made.id + 1]


async def test_deeds_are_read_latest_first_and_kept_for_400_days(store: Store, clock: Clock) -> None:
    for number in range(5):
        await store.add_audit(
            NewAuditEntry(
                actor="ada" if number % 2 else "bob",
                role="admin",
                action="cancel_job",
                target=f"job/{number}",
                queue="high" if number < 2 else None,
                status=200,
                detail='{"reason": "x"}',
                request="r1",
            )
        )
    deeds = await store.list_audit(AuditFilter(), limit=2)
    assert [deed.target for deed in deeds] == ["job/4", "job/3"]
    deeds = await store.list_audit(AuditFilter(), limit=9, before=deeds[-1].id)
    assert [deed.target for deed in deeds] == ["job/2", "job/1", "job/0"]
    assert (deeds[0].at, deeds[0].detail.replace(" ", "")) == (clock.now, '{"reason":"x"}')
    wanted = AuditFilter(actor="ada", action="cancel_job", queues=("high",))
    (found,) = await store.list_audit(wanted, limit=9)
    assert found.target == "job/1"
    assert await store.list_audit(msgspec.structs.replace(wanted, first=found.id), limit=9) == [found]
    assert await store.list_audit(msgspec.structs.replace(wanted, first=found.id + 1), limit=9) == []
    await clock.advance(days=401)
    await store.prune_access(3)
    assert len(await store.list_audit(AuditFilter(), limit=9)) == 2
