"""The same pages in a real browser: nothing on its console, nothing from elsewhere, nothing beyond the edge."""

import os
from pathlib import Path

import pytest

from holdfast import Budget, Context, Fatal, Queue
from tests.server.browser import browsing
from tests.server.furnished import furnish, furnished_app
from tests.server.test_live_page import free_port, serving
from tests.server.touring import PAGES, group_of
from tests.support.sizes import size
from tests.support.web import made_pass
from tests.support.workers import MakeApp, drained

LOOKS = (("light", 1280), ("dark", 390), ("dark", 1280), ("light", 390))
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
CUT = """() => {
  // Names what is cut off, or can be seen only by moving its table aside.
  const parts = [...document.querySelectorAll(".table, .table > .rows, .card")];
  return parts.filter((part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.textContent.slice(0, 60));
}"""
LONGEST = "a_name_of_as_many_letters_as_a_name_may_have_which_is_sixty_four"
TRIED = """() => {
  // Leaves out every column that can be, and counts the tables that show more than the first that has a name.
  const tables = [...document.querySelectorAll("table.rows")].filter((table) => table.tHead?.rows[0].cells.length > 1);
  const boxes = [...document.querySelectorAll("[data-columns] input:checked")];
  boxes.forEach((box) => box.click());
  const left = tables.filter((table) => {
    const heads = [...table.tHead.rows[0].cells];
    const kept = heads.findIndex((cell) => cell.textContent.trim()) + 1;
    const rows = [...table.rows].filter((row) => row.cells.length === heads.length);
    return rows.some((row) => [...row.cells].slice(kept).some((cell) => cell.checkVisibility()));
  });
  boxes.forEach((box) => box.click());
  return [tables.length, boxes.length, left.map((table) => table.tHead.textContent)];
}"""


@pytest.mark.parametrize("scheme, width", LOOKS[: size(2, 4)])
async def test_pages_in_a_browser(make_sqlite_file: MakeApp, tmp_path: Path, scheme: str, width: int) -> None:
    app = furnished_app(make_sqlite_file)
    kept = os.environ.get("HOLDFAST_SCREENSHOTS", str(tmp_path) if size(0, 1) else "")  # they cost as much as the rest
    async with app:
        await furnish(app)
        port = free_port()
        pages = (*PAGES, f"/dead-letters/{await group_of(app, 'sink')}", "/dead-letters/purge?kind=sink")
        session = await made_pass(app, "admin", kind="session")
        options = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
        async with serving(app, port), browsing(f"http://127.0.0.1:{port}", session, **options) as seen:
            choosing = 0
            for path in pages:
                await seen.page.goto(path, wait_until="load")
                assert await seen.page.title() != "", path
                assert not await seen.page.evaluate(WIDER), (path, "is wider than the window")
                tables, boxes, left = await seen.page.evaluate(TRIED)
                assert ((boxes > 0) == (tables > 0), left) == (True, []), path
                assert await seen.page.locator(".tabletools").is_visible() == (tables > 0), path
                choosing += tables
                name = path.strip("/").replace("/", "-").replace("?", "-").replace("=", "-")
                if kept:
                    await seen.page.screenshot(path=f"{kept}/{name}-{scheme}-{width}.png", full_page=True)
                assert seen.faults == [], path
            assert choosing > 15


@pytest.mark.parametrize("width", [1280, 390])
async def test_the_longest_names_push_nothing_beyond_the_edge(make_sqlite_file: MakeApp, width: int) -> None:
    app = make_sqlite_file(
        queues=[Queue(LONGEST, sla="1m", description="of customers")],
        budgets=[Budget(name=LONGEST, amount="$10", period="month", kinds=[LONGEST])],
    )

    @app.schedule(cron="30 2 * * mon-fri", tz="America/Argentina/ComodRivadavia")
    @app.task(kind=LONGEST, queue=LONGEST, max_attempts=1)
    async def sink(ctx: Context) -> None:
        await ctx.spend("$0.50", note="for everything " * 20)
        message = "there is no price on it " * 20
        raise Fatal(message)

    async with app:
        job = await app.enqueue(sink.using(actor=f"{LONGEST}@example.org").call())
        await drained(app)
        port = free_port()
        session = await made_pass(app, "admin", kind="session")
        named = (f"/queues/{LONGEST}", f"/schedules/{LONGEST}", f"/budgets/{LONGEST}", f"/jobs/{job.id}")
        lists = ("/", "/jobs", "/queues", "/schedules", "/failures", "/dead-letters", "/budgets", "/limits", "/workers")
        options = {"viewport": {"width": width, "height": 900}}
        async with serving(app, port), browsing(f"http://127.0.0.1:{port}", session, **options) as seen:
            for path in (*lists, *named):
                await seen.page.goto(path, wait_until="load")
                assert not await seen.page.evaluate(WIDER), (path, "is wider than the window")
                assert await seen.page.evaluate(CUT) == [], path


async def test_pages_by_keyboard(make_sqlite_file: MakeApp) -> None:
    app = furnished_app(make_sqlite_file)
    async with app:
        await furnish(app)
        port = free_port()
        session = await made_pass(app, "admin", kind="session")
        async with serving(app, port), browsing(f"http://127.0.0.1:{port}", session) as seen:
            page = seen.page
            await page.goto("/dead-letters")
            await page.keyboard.press("j")
            await page.keyboard.press("Enter")
            await page.wait_for_url("**/dead-letters/*")
            await page.keyboard.press("Escape")
            await page.wait_for_url("**/dead-letters")
            await page.keyboard.press("g")
            await page.keyboard.press("w")
            await page.wait_for_url("**/workers")
            assert seen.faults == []
