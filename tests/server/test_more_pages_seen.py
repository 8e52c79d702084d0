"""The same pages in a real browser: nothing on its console, nothing from elsewhere, nothing beyond the edge."""

import itertools
import os
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from playwright.async_api import Browser, Page

from holdfast import Budget, Context, Fatal, Queue
from tests.server.browser import IN_BROWSER, browsing
from tests.server.furnished import furnish, furnished_app
from tests.server.test_live_page import serving
from tests.server.touring import PAGES, group_of
from tests.support.ports import free_port
from tests.support.sizes import size
from tests.support.web import made_token
from tests.support.workers import MakeApp, drained

pytestmark = IN_BROWSER


class Look(NamedTuple):
    """How a page is drawn."""

    scheme: Literal["light", "dark"]
    width: int


NARROW, WIDE = Look("dark", 390), Look("light", 1280)
OTHERS = Look("light", 390), Look("dark", 1280)
LOOKS = ((NARROW, WIDE), (WIDE, NARROW), OTHERS, OTHERS[::-1])
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


async def put_on(page: Page, look: Look) -> None:
    """Let a page be drawn in a look."""
    await page.emulate_media(color_scheme=look.scheme)
    await page.set_viewport_size({"width": look.width, "height": 900})


async def found_right(page: Page, path: str) -> int:
    """Look at a page as it is drawn now, and count its tables."""
    assert not await page.evaluate(WIDER), (path, "is wider than the window")
    tables, boxes, left = await page.evaluate(TRIED)
    assert ((boxes > 0) == (tables > 0), left) == (True, []), path
    assert await page.locator(".tabletools").is_visible() == (tables > 0), path
    return int(tables)


@pytest.mark.parametrize("at_first, then", LOOKS[: size(1, 4)])
async def test_pages_in_a_browser(
    browser: Browser, make_sqlite_file: MakeApp, tmp_path: Path, at_first: Look, then: Look
) -> None:
    """Each page is loaded in the look of the page before, and seen in the other, too."""
    app = furnished_app(make_sqlite_file)
    kept = os.environ.get("HOLDFAST_SCREENSHOTS", str(tmp_path) if size(0, 1) else "")  # they cost as much as the rest
    async with app:
        await furnish(app)
        port = free_port()
        pages = (*PAGES, f"/dead-letters/{await group_of(app, 'sink')}", "/dead-letters/purge?kind=sink")
        session = await made_token(app, "admin", kind="session")
        async with serving(app, port), browsing(browser, f"http://127.0.0.1:{port}", session) as seen:
            choosing = 0
            await put_on(seen.page, at_first)
            looks = itertools.cycle([(at_first, then), (then, at_first)])
            for path, (loaded, other) in zip(pages, looks, strict=False):
                await seen.page.goto(path, wait_until="load")
                assert await seen.page.title() != "", path
                choosing += await found_right(seen.page, path)
                if kept:
                    name = path.strip("/").replace("/", "-").replace("?", "-").replace("=", "-")
                    picture = f"{kept}/{name}-{loaded.scheme}-{loaded.width}.png"
                    await seen.page.screenshot(path=picture, full_page=True)
                await put_on(seen.page, other)
                await found_right(seen.page, path)
                assert seen.faults == [], path
            assert choosing > 15


async def test_the_longest_names_push_nothing_beyond_the_edge(browser: Browser, make_sqlite_file: MakeApp) -> None:
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
        session = await made_token(app, "admin", kind="session")
        named = (f"/queues/{LONGEST}", f"/schedules/{LONGEST}", f"/budgets/{LONGEST}", f"/jobs/{job.number}")
        lists = ("/", "/jobs", "/queues", "/schedules", "/failures", "/dead-letters", "/budgets", "/limits", "/workers")
        async with serving(app, port), browsing(browser, f"http://127.0.0.1:{port}", session) as seen:
            looks = itertools.cycle([(NARROW, WIDE), (WIDE, NARROW)])
            for path, both in zip((*named, *lists), looks, strict=False):
                await put_on(seen.page, both[0])
                await seen.page.goto(path, wait_until="load")
                for look in both:
                    await put_on(seen.page, look)
                    assert not await seen.page.evaluate(WIDER), (path, look, "is wider than the window")
                    assert await seen.page.evaluate(CUT) == [], (path, look)


async def test_pages_by_keyboard(browser: Browser, make_sqlite_file: MakeApp) -> None:
    app = furnished_app(make_sqlite_file)
    async with app:
        await furnish(app)
        port = free_port()
        session = await made_token(app, "admin", kind="session")
        async with serving(app, port), browsing(browser, f"http://127.0.0.1:{port}", session) as seen:
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
