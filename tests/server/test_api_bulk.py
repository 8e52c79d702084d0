"""Bulk operations over HTTP: previewed, started, followed, stopped, within roles and queues."""

from collections.abc import Sequence

import httpx2
import msgspec
import pytest

from holdfast import Holdfast
from holdfast.services.bulk import BulkService
from holdfast.stores.access import AuditFilter
from holdfast.stores.values import Counted, JobFilter
from tests.server.asking import asking
from tests.server.test_api_jobs import problem

BULK = "/api/v1/bulk"


async def stored(app: Holdfast, queues: Sequence[str]) -> list[str]:
    @app.task(queue_override=True)
    async def work(n: int) -> None: ...

    return [(await work.using(queue=queue).enqueue(n)).id for n, queue in enumerate(queues)]


async def worked(app: Holdfast) -> None:
    """Do what a leader does until no run has anything left."""
    service = BulkService(app.store, app.client.delivery)
    while (await service.run(2)).has_more:
        pass


async def states(web: httpx2.AsyncClient) -> dict[str, str]:
    return {job["id"]: job["state"] for job in (await web.get("/api/v1/jobs")).json()["jobs"]}


async def test_a_preview_searches_for_a_moment_and_no_longer(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(memory_app, ["high"])
    budgets: list[int] = []
    count_found = memory_app.store.count_found

    async def counted(which: JobFilter, *, most: int, budget_ms: int) -> Counted:
        budgets.append(budget_ms)
        return msgspec.structs.replace(await count_found(which, most=most, budget_ms=budget_ms), capped=True)

    monkeypatch.setattr(memory_app.store, "count_found", counted)
    async with asking(memory_app, "viewer") as web:
        preview = (await web.post(f"{BULK}/preview", json={"verb": "cancel", "q": "wor"})).json()
    assert (preview, budgets) == ({"jobs": 1, "capped": True}, [1_000]), "whoever may only look may not look for long"


async def test_a_run_is_previewed_started_and_followed(memory_app: Holdfast) -> None:
    ids = await stored(memory_app, ["high", "high", "low", "low", "low"])
    async with asking(memory_app, "operator") as web:
        assert (await web.post(f"{BULK}/preview", json={"verb": "cancel", "q": "queue:low"})).json() == {
            "jobs": 3,
            "capped": False,
        }
        answer = await web.post(BULK, json={"verb": "cancel", "q": "queue:low", "reason": "no more", "rate": "1000/s"})
        run = answer.json()
        assert (answer.status_code, answer.headers["location"]) == (201, f"{BULK}/{run['id']}")
        assert (run["verb"], run["state"], run["expected"]["jobs"], run["actor"]) == (
            "cancel",
            "running",
            3,
            "operator",
        )
        assert (await web.post(f"{BULK}/{run['id']}/pause")).json()["state"] == "paused"
        await worked(memory_app)
        assert set((await states(web)).values()) == {"queued"}
        assert (await web.post(f"{BULK}/{run['id']}/resume")).json()["state"] == "running"
        while (await web.get(f"{BULK}/{run['id']}")).json()["state"] == "running":
            await worked(memory_app)
        told = (await web.get(f"{BULK}/{run['id']}")).json()
        assert (told["state"], told["done"], told["refused"]) == ("ended", 3, 0)
        assert [job for job, state in (await states(web)).items() if state == "cancelled"] == ids[:1:-1]
        assert problem(await web.post(f"{BULK}/{run['id']}/cancel")) == (409, "wrong-state")
        by_id = await web.post(BULK, json={"verb": "reprioritise", "ids": ids[:1], "priority": 1})
        assert by_id.json()["which"]["ids"] == ids[:1]
        assert (await web.post(f"{BULK}/{by_id.json()['id']}/cancel")).json()["state"] == "cancelled"
        later = await web.post(BULK, json={"verb": "reschedule", "q": "queue:high", "delay": "1h"})
        assert (later.status_code, later.json()["delay_ms"], later.json()["run_at"]) == (201, 3_600_000, None)
        await worked(memory_app)
        assert [(await states(web))[one] for one in ids[:2]] == ["scheduled", "scheduled"]
        assert [one["verb"] for one in (await web.get(BULK)).json()["operations"]] == [
            "reschedule",
            "reprioritise",
            "cancel",
        ]
        for wrong in (
            {"verb": "cancel"},
            {"verb": "cancel", "q": "", "ids": ids},
            {"verb": "burn", "q": ""},
            {"verb": "cancel", "q": "state:failed"},
            {"verb": "cancel", "q": "colour:red"},
            {"verb": "cancel", "ids": ["nobody"]},
            {"verb": "reprioritise", "q": ""},
            {"verb": "reschedule", "q": ""},
            {"verb": "reschedule", "q": "", "delay": "1h", "run_at": "2030-01-01T00:00:00Z"},
            {"verb": "cancel", "q": "", "delay": "1h"},
            {"verb": "retry", "q": "", "rate": "fast"},
        ):
            assert problem(await web.post(BULK, json=wrong))[0] == 422, wrong
        assert problem(await web.get(f"{BULK}/99999")) == (404, "not-found")
        assert problem(await web.get(f"{BULK}/{10**30}"))[0] == 422
    deeds = await memory_app.store.list_audit(AuditFilter(), limit=50)
    assert {"start_bulk", "pause_bulk", "resume_bulk", "cancel_bulk"} <= {deed.action for deed in deeds}


async def test_runs_keep_to_roles_and_queues(memory_app: Holdfast) -> None:
    ids = await stored(memory_app, ["high", "low", "low"])
    async with asking(memory_app, "viewer") as web:
        assert (await web.post(f"{BULK}/preview", json={"verb": "cancel", "q": ""})).json()["jobs"] == 3
        assert problem(await web.post(BULK, json={"verb": "cancel", "q": ""})) == (403, "role")
    async with asking(memory_app, "operator") as web:
        assert problem(await web.post(BULK, json={"verb": "delete", "q": ""})) == (403, "role")
        everything = (await web.post(BULK, json={"verb": "cancel", "q": ""})).json()["id"]
        await web.post(f"{BULK}/{everything}/cancel")
    async with asking(memory_app, "admin", ("high",)) as web:
        for asked in ({"q": ""}, {"q": "queue:low,high"}, {"ids": ids}):
            assert (await web.post(f"{BULK}/preview", json={"verb": "cancel", **asked})).json()["jobs"] == 1
        assert (await web.post(f"{BULK}/preview", json={"verb": "cancel", "q": "queue:low"})).json()["jobs"] == 0
        assert problem(await web.get(f"{BULK}/{everything}")) == (404, "not-found")
        assert problem(await web.post(f"{BULK}/{everything}/resume")) == (404, "not-found")
        mine = (await web.post(BULK, json={"verb": "cancel", "ids": ids})).json()["id"]
        assert [run["id"] for run in (await web.get(BULK)).json()["operations"]] == [mine]
        await worked(memory_app)
    found = await memory_app.jobs.get_many(ids)
    assert sorted((job.queue, job.state.value) for job in found.values()) == [
        ("high", "cancelled"),
        ("low", "queued"),
        ("low", "queued"),
    ]
    async with asking(memory_app) as web:
        assert (await web.post(BULK, json={"verb": "delete", "q": "state:cancelled"})).status_code == 201
        purge = (await web.get(BULK)).json()["operations"][0]["id"]
    async with asking(memory_app, "operator") as web:
        assert problem(await web.post(f"{BULK}/{purge}/pause")) == (403, "role")
