"""Queues, limits, locks, budgets, escalations, endpoints, settings, workers and the system over HTTP."""

import asyncio

import msgspec
import pytest

from holdfast import Budget, Context, Holdfast, Limit, LockLost, Queue
from holdfast.client import lock_keeper
from holdfast.policies.channels import SignedWebhook
from holdfast.policies.escalation import Escalation
from holdfast.resources.limit import LimitInfo
from holdfast.stores.alarms import Alarm
from tests.server.asking import asking
from tests.support import raw
from tests.support.workers import MakeApp, drained


@pytest.fixture
def app(make_sqlite_memory: MakeApp) -> Holdfast:
    made = make_sqlite_memory(
        queues=[Queue("high", workers=2, escalation="ops"), Queue("low")],
        limits=[Limit(name="shots", queue="high", concurrency=2)],
        budgets=[Budget(name="ai", amount="$500", queue="high")],
        channels={
            "hook": SignedWebhook(
                url="https://hooks.example.org/x", secret="whsec_" + "c2VjcmV0LW9mLXRoZS1ob29rLXRoYXQtaXMtbG9uZw=="
            )
        },
        escalations=[Escalation(name="ops", channels=["hook"])],
    )

    @made.task(queue="high", budget="ai", estimate="$1")
    async def summarise(ctx: Context) -> None:
        await ctx.spend(0.25, note="tokens")

    @made.task(queue="high")
    async def wait() -> None:
        pass

    return made


async def test_queues_are_set_reset_and_purged(app: Holdfast) -> None:
    async with app, asking(app) as web:
        await drained(app)  # which publishes what the app defines
        queue = (await web.get("/api/v1/queues/high")).json()
        assert (queue["workers"], queue["escalation"]) == (2, "ops")
        changed = await web.put("/api/v1/queues/high/settings/workers", json={"value": 5, "reason": "busy"})
        assert changed.json()["workers"] == 5, changed.text
        for field, value in (("workers", "many"), ("name", "x"), ("sla", -1)):
            answer = await web.put(f"/api/v1/queues/high/settings/{field}", json={"value": value})
            assert answer.status_code == 422, answer.text
        assert (await web.delete("/api/v1/queues/high/settings/workers")).json()["workers"] == 2
        for _ in range(3):
            await app.tasks.get("wait").using(delay="1h").enqueue()
        assert (await web.get("/api/v1/queues/high/purge")).json() == {"jobs": 3, "capped": False}
        run = await web.post("/api/v1/queues/high/purge", json={"reason": "old"})
        assert (run.json()["verb"], run.json()["which"]["queues"], run.json()["expected"]["jobs"]) == (
            "cancel",
            ["high"],
            3,
        )
        assert (await web.get("/api/v1/queues/none/purge")).status_code == 404
        async with asking(app, "admin", ("low",)) as other:
            for method, path in (("PUT", "settings/workers"), ("DELETE", "settings/workers"), ("POST", "purge")):
                body = {"value": 1} if method == "PUT" else None
                assert (await other.request(method, f"/api/v1/queues/high/{path}", json=body)).status_code == 404


async def test_the_fullest_keys_of_limits_are_told_to_programs_too(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory(limits=[Limit(name="mails", queue="default", key="args.to", rate="2/d")])

    @app.task
    async def mail(to: str) -> None:
        pass

    async with app, asking(app) as web:
        await drained(app)  # which publishes what the app defines
        for to in ("bob", "alice", "bob"):
            await mail.enqueue(to=to)
        told = (await web.get("/api/v1/limits/mails")).json()
        assert [(one["key"], one["unit"], one["available"]) for one in told["keys"]] == [
            ("bob", "enqueues", 0),
            ("alice", "enqueues", 1),
        ]
        assert msgspec.convert(told, LimitInfo) == await app.limits.get("mails")
        assert (await web.get("/api/v1/limits")).json() == {"limits": [told]}
        assert len((await web.get("/api/v1/limits/mails?key=bob")).json()["keys"]) == 1


async def test_a_setting_of_a_limit_is_set_and_reset(app: Holdfast) -> None:
    async with app, asking(app) as web:
        await drained(app)
        path = "/api/v1/limits/shots/settings/concurrency"
        assert (await web.put(path, json={"value": 7, "reason": "slow"})).json()["concurrency"] == 7
        assert (await app.limits.get("shots")).concurrency == 7
        (override,) = await app.settings.overrides()
        assert (override.path, override.changed_by, override.changed_reason) == (
            "limits.shots.concurrency",
            "admin",
            "slow",
        )
        before = (await web.delete(path)).json()
        assert before == (await web.get("/api/v1/limits/shots")).json()
        assert before["concurrency"] != 7
        for refused in (path.replace("concurrency", "name"), path.replace("concurrency", "x.concurrency")):
            assert (await web.put(refused, json={"value": 1})).status_code == 422
        assert (await web.put(path.replace("shots", "none"), json={"value": 1})).status_code == 404


async def test_settings_are_shown_set_and_reset(app: Holdfast) -> None:
    async with app, asking(app) as web:
        await drained(app)
        path = "/api/v1/settings/limits.shots.concurrency"
        made = await web.put(path, json={"value": 1, "reason": "slow"})
        assert (made.json()["value"], made.json()["changed_by"], made.json()["changed_reason"]) == (1, "admin", "slow")
        assert [one["path"] for one in (await web.get("/api/v1/settings/overrides")).json()["settings"]] == [
            "limits.shots.concurrency"
        ]
        shown = {one["path"]: one for one in (await web.get("/api/v1/settings")).json()["settings"]}
        assert shown["limits.shots.concurrency"] == made.json()
        assert made.json()["origin"] == "override"
        assert "server.url" in shown, "as `config show` has it"
        assert (await web.get("/api/v1/limits/shots")).json()["concurrency"] == 1
        assert (await web.put(path, json={"value": "x"})).status_code == 422
        assert (await web.put("/api/v1/settings/limits.none.concurrency", json={"value": 1})).status_code == 422
        assert (await web.delete(path)).json() == {"reset": True}
        assert (await web.delete(path)).json() == {"reset": False}


@pytest.mark.guards("settings-server")
async def test_who_may_use_the_server_is_shown_to_those_who_may_change_settings(app: Holdfast) -> None:
    for role, is_shown in (("operator", False), ("admin", True)):
        async with app, asking(app, role) as web:
            found = (await web.get("/api/v1/settings")).json()
            assert any(one["path"].startswith("server.") for one in found["settings"]) == is_shown


async def test_secrets_of_settings_are_covered(app: Holdfast) -> None:
    transport_app = app.asgi()
    assert transport_app is not None
    async with app:
        text = str(app.describe_settings())
    assert "channels.hook.secret" in text
    assert "c2VjcmV0LW9mLXRoZS1ob29rLXRoYXQtaXMtbG9uZw==" not in text


async def test_budgets_tell_who_spent_what(app: Holdfast) -> None:
    async with app, asking(app, "operator") as web:
        await app.tasks.get("summarise").using(actor="ann").enqueue()
        await drained(app)
        (budget,) = (await web.get("/api/v1/budgets")).json()["budgets"]
        assert (budget["name"], budget["spent"], budget["ceiling"], budget["unit"]) == ("ai", 0.25, 500.0, "usd")
        assert (await web.get("/api/v1/budgets/ai")).json() == budget
        parts = (await web.get("/api/v1/budgets/ai/spend?by=actor")).json()["parts"]
        assert parts == [{"name": "ann", "amount": 0.25, "entries": 1}]
        page = (await web.get("/api/v1/budgets/ai/ledger?limit=1")).json()
        assert [(entry["amount"], entry["note"]) for entry in page["entries"]] == [(0.25, "tokens")]
        assert (await web.get(f"/api/v1/budgets/ai/ledger?before={page['next']}")).json()["entries"] == []
        assert (await web.get("/api/v1/budgets/ai/lost")).json() == {"lost": []}
        settled = await web.post("/api/v1/budgets/ai/settle", json={"job": page["entries"][0]["job"], "claim": 1})
        assert settled.json() == {"settled": False}
        for path in ("", "/spend", "/ledger", "/lost"):
            assert (await web.get(f"/api/v1/budgets/none{path}")).status_code == 404
        assert (await web.get("/api/v1/budgets/ai/spend?by=price")).status_code == 422


async def test_a_lock_is_taken_away(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_keeper, "_RENEWALS", 300)  # ten times a second
    entered = asyncio.Event()

    async def hold() -> None:
        async with app.lock("edition", 42):
            entered.set()
            await asyncio.Event().wait()

    async with app, asking(app) as web:
        holding = asyncio.create_task(hold())
        await entered.wait()
        (lock,) = (await web.get("/api/v1/locks")).json()["locks"]
        wrong = {"name": lock["name"], "token": lock["token"] + 1}
        assert (await web.post("/api/v1/locks/release", json=wrong)).status_code == 404
        right = {"name": lock["name"], "token": lock["token"]}
        assert (await web.post("/api/v1/locks/release", json=right)).json() == lock
        with pytest.raises(LockLost):
            await asyncio.wait_for(holding, 10)
        assert (await web.get("/api/v1/locks")).json() == {"locks": []}


async def test_escalations_are_answered_by_those_who_see_them(app: Holdfast) -> None:
    async with app, asking(app, "operator") as web:
        await drained(app)
        for title, queue in (("mail is down", "high"), ("disk is full", "low")):
            alarm = Alarm(source="failed", title=title, policy="ops", queue=queue, kind=queue, fingerprint="x")
            await raw.raise_alarm(app.store, alarm)
        await app.store.fold_alarms({"ops": ("failed",)}, 10)
        newest, oldest = (await web.get("/api/v1/escalations?open=true")).json()["escalations"]
        first = (await web.get("/api/v1/escalations?limit=1")).json()
        assert first["next"] == newest["id"]
        detail = (await web.get(f"/api/v1/escalations/{oldest['id']}")).json()
        assert (detail["escalation"]["title"], detail["notices"]) == ("mail is down", [])
        snoozed = await web.post(f"/api/v1/escalations/{oldest['id']}/snooze", json={"lasts": "2h"})
        assert (snoozed.json()["state"], snoozed.json()["snoozed_by"]) == ("snoozed", "operator")
        assert (await web.post(f"/api/v1/escalations/{oldest['id']}/snooze", json={})).status_code == 422
        acked = await web.post(f"/api/v1/escalations/{newest['id']}/ack", json={"note": "on it"})
        assert (acked.json()["state"], acked.json()["acked_by"], acked.json()["note"]) == (
            "acknowledged",
            "operator",
            "on it",
        )
        assert (await web.post(f"/api/v1/escalations/{newest['id']}/snooze", json={"lasts": "2h"})).status_code == 409
        assert (await web.get("/api/v1/escalations/999999")).status_code == 404
        assert (await web.post("/api/v1/escalations/test", json={"policy": "none"})).status_code == 404
        async with asking(app, "operator", ("low",)) as other:
            seen = (await other.get("/api/v1/escalations")).json()["escalations"]
            assert [one["queue"] for one in seen] == ["low"]
            foreign = next(one["id"] for one in (oldest, newest) if one["queue"] == "high")
            assert (await other.post(f"/api/v1/escalations/{foreign}/ack")).status_code == 404
            assert (await other.get(f"/api/v1/escalations/{foreign}")).status_code == 404


async def test_workers_services_and_tables_are_shown(app: Holdfast) -> None:
    async with app, asking(app, "viewer") as web:
        await drained(app)
        workers = (await web.get("/api/v1/workers?dead=true")).json()["workers"]
        for one in workers:
            assert (await web.get(f"/api/v1/workers/{one['id']}")).json()["instance"] == one["instance"]
        assert (await web.get("/api/v1/workers/999999")).status_code == 404
        system = (await web.get("/api/v1/system")).json()
        assert system["store"].lower().startswith("sqlite")
        assert system["size_bytes"] > system["free_bytes"] >= 0
        tables = {one["name"]: one for one in (await web.get("/api/v1/system/tables")).json()["tables"]}
        assert {"jobs", "history", "audit"} <= tables.keys()
        assert 0 < tables["history"]["size_bytes"] < system["size_bytes"]
        services = (await web.get("/api/v1/services")).json()["services"]
        assert {"promotion", "rescue"} & {one["name"] for one in services}
        assert (await web.get("/api/v1/webhooks")).json() == {"endpoints": []}
