"""The pages of queues, schedules, failures, dead letters, escalations, budgets, limits, workers and the system."""

import time
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from holdfast import Holdfast
from holdfast.cron import read_times
from holdfast.errors import InvalidValue
from holdfast.resources.budget import BudgetInfo
from holdfast.server.pages.budgets import forecast
from holdfast.server.pages.schedules import shortened
from holdfast.stores.cluster import LockRequest
from tests.server.furnished import furnish, furnished_app
from tests.server.hostile import HOSTILE, TOGETHER
from tests.server.reading import read
from tests.server.touring import PAGES, escalation_of, group_of, links, sent, shown
from tests.support.web import PAGE, bearing, made_token, visit
from tests.support.workers import MakeApp

EMPTY = ("/queues", "/schedules", "/failures", "/dead-letters", "/escalations", "/budgets", "/limits", "/workers")


# ---- every page ----------------------------------------------------------------------------------------------------


async def test_every_page_is_right_for_those_who_look_and_those_who_act(
    town: Holdfast, web: httpx2.AsyncClient
) -> None:
    group = await group_of(town, "sink")
    pages = (*PAGES, f"/dead-letters/{group}", f"/dead-letters/replay?group={group}", "/dead-letters/purge?kind=sink")
    for path in pages:
        page = await shown(web, path)
        assert all(form.fields.get("form_token") for form in page.forms if form.method == "post"), path
    viewer = await made_token(town, "viewer")
    async with visit(town) as asked:
        asked.headers.update(PAGE | bearing(viewer))
        for path in PAGES:
            answer = await asked.get(path)
            if path in ("/system/audit", "/system/tokens"):
                assert answer.status_code == 403, path
                continue
            assert answer.status_code == 200, path
            assert [form.action for form in read(answer.text).forms if form.method == "post"] == [], path


async def test_pages_of_an_empty_store_say_what_fills_them(memory_app: Holdfast) -> None:
    async with visit(memory_app, is_open=True) as asked:
        asked.headers.update(PAGE)
        for path in EMPTY:
            page = await shown(asked, path)
            assert any(given.get("class") == "empty" for _, given in page.tags), path
        assert "No token yet" in (await shown(asked, "/system/tokens")).text
        assert (await asked.get("/queues/none")).status_code == 404
        assert (await asked.get("/schedules/none")).status_code == 404
        assert (await asked.get("/escalations/7")).status_code == 404
        assert (await asked.get("/budgets/none")).status_code == 404
        assert (await asked.get("/dead-letters/0123456789ab")).status_code == 404


async def test_each_part_of_a_page_can_be_had_alone(web: httpx2.AsyncClient) -> None:
    seen = 0
    for path in PAGES:
        for part in (await shown(web, path)).parts:
            answer = await web.get(path, headers={"x-part": part})
            alone = read(answer.text)
            assert alone.parts[:1] == [part], (path, part)
            assert alone.faults == [], (path, part)
            assert "<html" not in answer.text
            seen += 1
    assert seen >= 15


# ---- who may -------------------------------------------------------------------------------------------------------


async def test_pages_show_only_the_queues_of_whoever_looks(town: Holdfast) -> None:
    secret = await made_token(town, "admin", queues=("high",))
    theirs, alarm = await group_of(town, "foreign"), await escalation_of(town, "theirs")
    hidden = ("/queues/theirs", "/schedules/theirs_only", f"/dead-letters/{theirs}", f"/escalations/{alarm}")
    async with visit(town) as asked:
        asked.headers.update(PAGE | bearing(secret))
        for path in ("/queues", "/schedules", "/failures", "/dead-letters", "/escalations", "/workers"):
            answer = await asked.get(path)
            assert answer.status_code == 200, path
            for word in ("theirs", "foreign", "their-host"):
                assert word not in answer.text, (path, word)
        nav = links(read((await asked.get("/queues")).text))
        assert "/system/audit" in nav  # of the system, that much is theirs
        assert not {"/budgets", "/limits", "/system"} & set(nav)
        assert (await asked.get("/system/audit")).status_code == 200
        for path in hidden:
            assert (await asked.get(path)).status_code == 404, path
        for path in ("/budgets", "/limits", "/system", "/system/settings"):
            assert (await asked.get(path)).status_code == 403, path
        for path in ("/queues/theirs/pause", "/schedules/theirs_only/run", f"/escalations/{alarm}/ack"):
            assert (await asked.post(path, data={})).status_code == 404, path
        assert (await asked.post("/failures/retry", data={"kind": "foreign", "fingerprint": "x"})).status_code == 303
        run = (await town.bulk.list())[0]
        assert (run.which["queues"], run.expected.jobs) == (["high"], 0)
        lines = (await asked.get("/dead-letters/export")).text
        assert "foreign" not in lines
        await town.dead_letters.replay(kind="foreign")
        assert "foreign" not in (await asked.get("/dead-letters")).text
        answer = await asked.post(f"/dead-letters/bulk/{(await town.bulk.list())[0].id}/cancel", data={})
        assert answer.status_code == 404


async def test_forms_of_other_sites_are_refused(web: httpx2.AsyncClient, town: Holdfast) -> None:
    await web.get("/queues")
    answer = await web.post("/queues/theirs/pause", data={}, headers={"origin": "http://127.0.0.1"})
    assert answer.status_code == 403
    assert [queue.name for queue in await town.queues.list() if queue.paused_at] == ["high"]


# ---- hostile words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", TOGETHER)
async def test_whatever_people_wrote_is_shown_as_text(make_sqlite_memory: MakeApp, said: str) -> None:
    app = furnished_app(make_sqlite_memory, said)
    async with app:
        await furnish(app, said)
        await app.store.take_lock(LockRequest(said[:200], "o", "c", said[:50]), lasts_ms=60_000, waits_ms=1_000)
        await app.escalations.ack(1, actor=said[:60], note=said)
        async with visit(app, is_open=True) as asked:
            asked.headers.update(PAGE)
            for hostile in HOSTILE[:3]:
                await sent(asked, "/system/tokens", "/system/tokens", name=hostile[:64])
            group = await group_of(app, "sink")
            for path in (
                *PAGES,
                f"/dead-letters/{group}",
                f"/failures?kind={HOSTILE[0]}",
                f"/failures/discard?kind=sink&fingerprint={HOSTILE[0]}",
                f"/budgets/ai?key={HOSTILE[0]}",
                f"/system/audit?actor={HOSTILE[8]}",
            ):
                answer = await asked.get(path)
                assert answer.status_code in {200, 422}, path
                assert read(answer.text).faults == [], path
                for hostile in HOSTILE:
                    if "<" in hostile or '"' in hostile:
                        assert hostile not in answer.text, (path, hostile)


async def test_a_schedule_is_told_in_a_text_that_has_an_end() -> None:
    many = ",".join(str(number) for number in range(60))
    began = time.process_time()
    hours = ",".join(str(number) for number in range(24))
    assert len(shortened(read_times(cron=f"{many} {hours} * * *").describe())) <= 310
    assert len(shortened(read_times(cron="*/2 1-20/3 1,5,9 */2 mon#1").describe())) <= 310
    for line in ("1--100000000 * * * *", "0-99999999999 * * * *", "*/0 * * * *", "1,,,,2 * * * *", "9" * 300):
        with pytest.raises(InvalidValue):
            read_times(cron=line)
    assert time.process_time() - began < 1.0


def test_a_budget_is_foretold_from_its_pace() -> None:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    end, now = start + timedelta(days=30), start + timedelta(days=10)

    def state(spent: int, ceiling: int = 100) -> BudgetInfo:
        return BudgetInfo(
            name="ai",
            key="",
            unit="usd",
            level="normal",
            spent=spent,
            reserved=0,
            lost=0,
            ceiling=ceiling,
            period="month",
            tz="UTC",
            starts_at=start,
            ends_at=end,
        )

    assert forecast(state(50), now) == start + timedelta(days=20)
    assert forecast(state(30), now) is None  # it lasts longer than the month
    assert forecast(state(0), now) is None
    assert forecast(state(100), now) == now
    assert forecast(state(1, 10**12), now) is None
