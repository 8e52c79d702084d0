"""Schedules and maintenance windows over HTTP."""

from typing import Any

import pytest

from holdfast import Holdfast
from tests.server.asking import asking
from tests.support.workers import MakeApp


@pytest.fixture
def app(make_sqlite_memory: MakeApp) -> Holdfast:
    made = make_sqlite_memory()

    @made.task(queue="high")
    async def send_report(to: str) -> None:
        pass

    return made


def new(**given: Any) -> dict[str, Any]:
    return {"name": "nightly", "kind": "send_report", "args": {"to": "a"}, "cron": "0 3 * * *"} | given


async def test_a_schedule_is_made_changed_run_and_deleted(app: Holdfast) -> None:
    async with app, asking(app, "admin") as web:
        made = await web.post("/api/v1/schedules", json=new(tz="Europe/Berlin"))
        assert made.status_code == 201, made.text
        assert (made.json()["queue"], made.json()["tz"], made.json()["changed"]) == ("high", "Europe/Berlin", [])
        assert (await web.post("/api/v1/schedules", json=new())).status_code == 409
        times = (await web.get("/api/v1/schedules/nightly/next?count=3")).json()["times"]
        assert len(times) == 3
        assert times == sorted(times)
        changed = await web.patch("/api/v1/schedules/nightly", json={"every": "5m", "overlap": "queue"})
        assert (changed.json()["every_ms"], changed.json()["overlap"]) == (300_000, "queue")
        assert changed.json()["changed_by"] == "admin"
        assert (await web.patch("/api/v1/schedules/nightly", json={"args": {"to": "b"}})).json()["args"] == {"to": "b"}
        assert not (await web.post("/api/v1/schedules/nightly/disable")).json()["enabled"]
        assert (await web.get("/api/v1/schedules/nightly/next")).json()["times"] == []
        assert (await web.post("/api/v1/schedules/nightly/enable")).json()["enabled"]
        assert (await web.post("/api/v1/schedules/nightly/reset")).json()["cron"] == "0 3 * * *"
        ran = await web.post("/api/v1/schedules/nightly/run")
        assert (await app.jobs.get(ran.json()["id"])).args == {"to": "a"}
        fires = (await web.get("/api/v1/schedules/nightly/fires")).json()["fires"]
        assert [(fire["outcome"], fire["job"]) for fire in fires] == [("by_hand", ran.json()["id"])]
        assert (await web.delete("/api/v1/schedules/nightly")).status_code == 204
        assert (await web.get("/api/v1/schedules/nightly")).status_code == 404


async def test_what_cannot_be_is_refused(app: Holdfast) -> None:
    async with app, asking(app, "admin") as web:
        for wrong in (
            {"cron": "60 * * * *"},
            {"cron": "1--100000000 * * * *"},
            {"every": "5m"},  # beside the cron line
            {"tz": "Nowhere/Else"},
            {"kind": "unknown"},
            {"args": {"too": "b"}},
            {"window": ["25:00", "26:00"]},
            {"extra": 1},
            {"name": "a b"},
        ):
            answer = await web.post("/api/v1/schedules", json=new(**wrong))
            assert answer.status_code == 422, (wrong, answer.text)
        assert (await web.get("/api/v1/schedules")).json() == {"schedules": []}


async def test_schedules_of_other_queues_are_not_there(app: Holdfast) -> None:
    async with app:
        await app.schedules.create("nightly", app.tasks.get("send_report").call(to="a"), cron="0 3 * * *")
        async with asking(app, "admin", ("low",)) as web:
            assert (await web.get("/api/v1/schedules")).json() == {"schedules": []}
            for method, path in (("GET", ""), ("GET", "/next"), ("GET", "/fires"), ("POST", "/run"), ("DELETE", "")):
                assert (await web.request(method, f"/api/v1/schedules/nightly{path}")).status_code == 404
            assert (await web.post("/api/v1/schedules", json=new(name="other"))).status_code in (404, 422)
        assert [state.name for state in await app.schedules.list()] == ["nightly"]


async def test_maintenance_windows(app: Holdfast) -> None:
    async with app, asking(app, "admin") as web:
        asked = {"window": ["02:00", "04:00"], "days": "sun", "tz": "Europe/Berlin", "reason": "release"}
        made = await web.put("/api/v1/maintenance/release", json=asked)
        assert made.json()["hours"] == "02:00-04:00 sun Europe/Berlin"
        assert [one["name"] for one in (await web.get("/api/v1/maintenance")).json()["windows"]] == ["release"]
        assert (await web.put("/api/v1/maintenance/release", json={})).status_code == 422
        assert (await web.delete("/api/v1/maintenance/release")).status_code == 204
        assert (await web.delete("/api/v1/maintenance/release")).status_code == 404
