"""The way in and the shape of errors."""

import httpx2

from holdfast import Holdfast
from holdfast.client import secrets
from holdfast.server.settings import ServerSettings
from holdfast.stores.access import AuditFilter, NewToken


async def made_token(app: Holdfast, role: str, queues: tuple[str, ...] | None = None) -> str:
    secret = secrets.new_secret()
    await app.store.add_token(
        NewToken(
            kind="token",
            name=role,
            digest=secrets.digest_of(secret),
            hint=secrets.hint_of(secret),
            role=role,
            queues=queues,
            created_by="test",
            lasts_ms=None,
        )
    )
    return secret


async def test_tokens_roles_and_errors(memory_app: Holdfast) -> None:
    transport = httpx2.ASGITransport(app=memory_app.asgi(ServerSettings()))
    async with memory_app, httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as web:
        await memory_app.queues.pause("high")
        assert (await web.get("/healthz")).text == "ok"
        assert (await web.get("/readyz")).text == "ready"
        answer = await web.get("/api/v1/queues")
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
        viewer, operator = await made_token(memory_app, "viewer"), await made_token(memory_app, "operator")
        answer = await web.get("/api/v1/queues", headers={"authorization": f"Bearer {viewer}"})
        assert (answer.status_code, answer.json()["queues"][0]["name"]) == (200, "high")
        answer = await web.post("/api/v1/queues/high/resume", headers={"authorization": f"Bearer {viewer}"})
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:role")
        answer = await web.post("/api/v1/queues/high/resume", headers={"authorization": f"Bearer {operator}"})
        assert (answer.status_code, answer.json()["paused_at"]) == (200, None)
        answer = await web.get("/api/v1/queues", headers={"host": "evil.example"})
        assert (answer.status_code, answer.json()["type"]) == (421, "urn:holdfast:host")
        answer = await web.post("/api/v1/queues/high/pause", headers={"origin": "http://evil.example"})
        assert answer.status_code == 403
        deeds = await memory_app.store.list_audit(AuditFilter(), limit=9)
        assert [(deed.actor, deed.action, deed.status, deed.queue) for deed in deeds] == [
            ("operator", "resume_queue", 200, "high"),
            ("viewer", "resume_queue", 403, None),
        ]


async def test_who_asks_is_asked_before_the_body_is_read(memory_app: Holdfast) -> None:
    transport = httpx2.ASGITransport(app=memory_app.asgi(ServerSettings()))
    async with memory_app, httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as web:
        viewer = {"authorization": f"Bearer {await made_token(memory_app, 'viewer')}"}
        for body in (b"{", b'{"kind": 1}', b"x" * 1_000):
            answer = await web.post("/api/v1/jobs", content=body)
            assert (answer.status_code, answer.json()["type"]) == (401, "urn:holdfast:nobody")
            answer = await web.post("/api/v1/jobs", content=body, headers=viewer)
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:holdfast:role")
