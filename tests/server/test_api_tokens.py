"""Tokens and the audit over HTTP."""

import pytest

from holdfast import Holdfast
from holdfast.server.settings import ServerSettings
from tests.server.asking import asking
from tests.support.web import PAGE, bearing, form_token, made, made_token, visit

MOST_LISTED = 1_000


async def test_a_token_is_shown_once_works_and_is_revoked(memory_app: Holdfast) -> None:
    async with asking(memory_app) as web:
        asked = {"name": "ci", "role": "operator", "queues": ["High", "high"], "expires_in": "90d"}
        made = await web.post("/api/v1/tokens", json=asked)
        assert made.status_code == 201
        secret, number = made.json()["secret"], made.json()["id"]
        assert secret.startswith("hf_")
        assert made.json()["queues"] == ["high"]
        listed = await web.get("/api/v1/tokens")
        assert secret not in listed.text
        assert {one["name"] for one in listed.json()["tokens"]} == {"admin", "ci"}
        mine = {"authorization": f"Bearer {secret}"}
        assert (await web.get("/api/v1/queues", headers=mine)).status_code == 200
        assert (await web.get("/api/v1/tokens", headers=mine)).status_code == 403
        assert (await web.delete(f"/api/v1/tokens/{number}")).json()["revoked_by"] == "admin"
        assert (await web.get("/api/v1/queues", headers=mine)).status_code == 401
        assert (await web.delete("/api/v1/tokens/999999")).status_code == 404
        deeds = (await web.get("/api/v1/audit?limit=2")).json()
        assert [entry["action"] for entry in deeds["entries"]] == ["revoke_token", "revoke_token"]
        assert secret not in (await web.get("/api/v1/audit")).text


@pytest.mark.guards("own-token")
async def test_nobody_revokes_the_token_they_came_with(memory_app: Holdfast) -> None:
    async with asking(memory_app) as web:
        (own,) = (await web.get("/api/v1/tokens")).json()["tokens"]
        answer = await web.delete(f"/api/v1/tokens/{own['id']}")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:holdfast:own-token")
        assert (await web.get("/api/v1/tokens")).status_code == 200


@pytest.mark.guards("token-gift")
@pytest.mark.parametrize("queues", [None, ["high"], ["low", "high"]])
async def test_nobody_gives_more_than_they_have(memory_app: Holdfast, queues: list[str] | None) -> None:
    async with asking(memory_app, "admin", ("low",)) as web:
        answer = await web.post("/api/v1/tokens", json={"name": "more", "role": "viewer", "queues": queues})
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:scope")
        assert (await web.post("/api/v1/tokens", json={"name": "same", "queues": ["low"]})).status_code == 201
    assert {row.name for row in await memory_app.store.list_tokens("token")} == {"admin", "same"}


@pytest.mark.guards("token-end")
@pytest.mark.parametrize("expires_in", [None, "2h"])
async def test_nobody_gives_more_time_than_they_have(memory_app: Holdfast, expires_in: str | None) -> None:
    brief = bearing(await made_token(memory_app, lasts_ms=3_600_000, name="brief"))
    async with visit(memory_app) as web:
        asked = {"name": "for ever", "role": "admin", "expires_in": expires_in}
        answer = await web.post("/api/v1/tokens", json=asked, headers=brief)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:scope")
        asked |= {"name": "shorter", "expires_in": "30m"}
        assert (await web.post("/api/v1/tokens", json=asked, headers=brief)).status_code == 201
    assert {row.name for row in await memory_app.store.list_tokens("token")} == {"brief", "shorter"}


@pytest.mark.parametrize("has_login", [False, True])
async def test_nobody_hides_the_end_of_their_token_behind_others(memory_app: Holdfast, *, has_login: bool) -> None:
    secret, own = await made(memory_app, lasts_ms=3_600_000)
    login = await made_token(memory_app, kind="session", lasts_ms=3_600_000, parent=own.id)
    for _ in range(MOST_LISTED):
        await made_token(memory_app, kind="session" if has_login else "token", lasts_ms=60_000)
    async with visit(memory_app, ServerSettings(rate=None)) as web:
        asked = {"name": "for ever", "role": "admin"}
        if has_login:
            web.cookies.set("holdfast_session", login)
            page = await web.get("/queues", headers=PAGE)
            web.headers["x-form-token"] = form_token(page)
        else:
            web.headers.update(bearing(secret))
        answer = await web.post("/api/v1/tokens", json=asked)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:scope")
        answer = await web.delete(f"/api/v1/tokens/{own.id}")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:holdfast:own-token")
    async with asking(memory_app) as other:
        assert (await other.delete(f"/api/v1/tokens/{own.id}")).json()["revoked_by"] == "admin"


@pytest.mark.guards("token-scope")
async def test_tokens_that_see_more_are_not_there(memory_app: Holdfast) -> None:
    async with asking(memory_app) as web, asking(memory_app, "admin", ("low",)) as other:
        (whole,) = [one for one in (await web.get("/api/v1/tokens")).json()["tokens"] if one["queues"] is None]
        assert [one["queues"] for one in (await other.get("/api/v1/tokens")).json()["tokens"]] == [["low"]]
        assert (await other.delete(f"/api/v1/tokens/{whole['id']}")).status_code == 404
        assert (await web.get("/api/v1/tokens")).status_code == 200


async def test_the_audit_goes_page_by_page_and_is_narrowed(memory_app: Holdfast) -> None:
    async with asking(memory_app) as web:
        for queue in ("high", "low", "high"):
            await web.post(f"/api/v1/queues/{queue}/pause", json={"reason": queue})
        first = (await web.get("/api/v1/audit?limit=2")).json()
        second = (await web.get(f"/api/v1/audit?limit=2&before={first['next']}")).json()
        assert [entry["queue"] for entry in first["entries"] + second["entries"]] == ["high", "low", "high"]
        assert second["next"] is None
        assert first["entries"][0]["detail"]["reason"] == "high"
        for query, count in (("actor=admin", 3), ("actor=x", 0), ("action=pause_queue", 3), ("queue=low", 1)):
            assert len((await web.get(f"/api/v1/audit?{query}")).json()["entries"]) == count, query
        async with asking(memory_app, "admin", ("low",)) as other:
            assert [entry["queue"] for entry in (await other.get("/api/v1/audit")).json()["entries"]] == ["low"]
            assert (await other.get("/api/v1/audit?queue=high")).status_code == 404


@pytest.mark.guards("request-rate")
async def test_who_asks_too_often_waits(memory_app: Holdfast) -> None:
    settings = ServerSettings(rate="3/m")
    async with asking(memory_app, settings=settings) as web:
        assert [(await web.get("/api/v1/queues")).status_code for _ in range(4)] == [200, 200, 200, 429]
        refused = await web.get("/api/v1/queues")
        assert refused.json()["type"] == "urn:holdfast:too-many-requests"
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        made = await memory_app.store.list_tokens("token")
        assert made
        assert (await web.get("/healthz")).status_code == 200
