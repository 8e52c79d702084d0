"""Tables in a real browser: columns can be left out and rows be compact, and no refresh undoes that."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from holdfast import Holdfast
from tests.server.browser import IN_BROWSER, browsing
from tests.server.furnished import furnish, furnished_app
from tests.server.test_live_page import serving
from tests.support.ports import free_port
from tests.support.wait import PATIENCE_S
from tests.support.web import made_token
from tests.support.workers import MakeApp

pytestmark = [*IN_BROWSER, pytest.mark.timeout(180)]

WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
TAKEN_OUT = """() => {
  // As a morph leaves it: what the script had put on is gone, and nothing else is new.
  const cells = [...document.querySelectorAll("[data-off]")];
  cells.forEach((cell) => cell.removeAttribute("data-off"));
  return Promise.resolve().then(() => [cells.length, cells.filter((cell) => cell.checkVisibility()).length]);
}"""


@pytest_asyncio.fixture(loop_scope="session")
async def street(make_sqlite_file: MakeApp) -> AsyncIterator[Holdfast]:
    """A store with something on every page, in a file, which a server shows."""
    app = furnished_app(make_sqlite_file)
    async with app:
        await furnish(app)
        yield app


async def chosen(page: Page, *names: str) -> None:
    """Open the menu, and leave columns out."""
    await page.locator(".tabletools summary").click()
    for name in names:
        await page.locator(f"[data-column={name}]").uncheck()


async def test_a_choice_is_kept_and_outlives_refreshes(browser: Browser, street: Holdfast) -> None:
    port, session = free_port(), await made_token(street, "operator", kind="session")
    async with serving(street, port), browsing(browser, f"http://127.0.0.1:{port}", session) as seen:
        page = seen.page
        await page.goto("/queues")
        waiting = page.get_by_role("columnheader", name="Waiting")
        await expect(page.locator("body")).to_have_attribute("data-live-state", "live", timeout=PATIENCE_S * 1_000)
        await page.locator(".tabletools summary").focus()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Space")
        await expect(waiting).to_be_hidden()
        await street.queues.pause("theirs", reason="to be seen")
        await street.tasks.get("foreign").enqueue()  # of which the page is told
        await expect(page.get_by_text("to be seen")).to_be_visible(timeout=PATIENCE_S * 1_000)
        await expect(waiting).to_be_hidden()
        await expect(page.locator("[data-column=waiting]")).to_be_focused()  # nothing was taken from under the hand
        assert await page.evaluate(TAKEN_OUT) == [3, 0]
        await page.keyboard.press("Escape")
        await expect(page.locator("[data-column=waiting]")).to_be_hidden()
        await expect(page.locator(".tabletools summary")).to_be_focused()
        assert page.url.endswith("/queues"), "Esc closes the menu before it goes back"
        await page.reload()
        await expect(waiting).to_be_hidden()
        await page.goto("/queues/high")
        await expect(page.get_by_role("columnheader", name="Failed")).to_be_visible()  # another sort of table
        await page.goto("/queues")
        await page.locator(".tabletools summary").click()
        await page.locator("[data-column=waiting]").check()
        await expect(waiting).to_be_visible()
        await page.locator("h1").click()
        await expect(page.locator("[data-column=waiting]")).to_be_hidden()
        assert seen.faults == []


async def test_cells_over_several_columns_shrink_with_them(browser: Browser, street: Holdfast) -> None:
    port, session = free_port(), await made_token(street, "viewer", kind="session")
    spans = "() => [...document.querySelector('tr.together').cells].map((cell) => cell.colSpan)"
    async with serving(street, port), browsing(browser, f"http://127.0.0.1:{port}", session) as seen:
        await seen.page.goto("/schedules")
        before = await seen.page.evaluate(spans)
        await chosen(seen.page, "when", "last-times")
        assert await seen.page.evaluate(spans) == [before[0] - 2, *before[1:]]
        await expect(seen.page.locator("tr.together .overlaps")).to_be_visible()
        await seen.page.locator("[data-column=when]").check()
        assert await seen.page.evaluate(spans) == [before[0] - 1, *before[1:]]


async def test_on_a_telephone(browser: Browser, street: Holdfast) -> None:
    port, session = free_port(), await made_token(street, "operator", kind="session")
    narrow = {"viewport": {"width": 390, "height": 800}}
    async with serving(street, port), browsing(browser, f"http://127.0.0.1:{port}", session, **narrow) as seen:
        page = seen.page
        for path, name in (("/queues", "sla"), ("/workers", "queues"), ("/jobs", "queue")):
            await page.goto(path)
            cells = page.locator("tbody tr:first-child td:visible")
            shown = await cells.count()
            await chosen(page, name)
            await expect(cells).to_have_count(shown - 1)
            left = await page.locator(".tabletools .menu").evaluate("(menu) => menu.getBoundingClientRect().left")
            assert left >= 0, path
            assert not await page.evaluate(WIDER), path
        await page.goto("/queues")
        row = page.locator("tbody tr").first
        tall = await row.evaluate("(row) => row.offsetHeight")
        await page.get_by_role("button", name="Compact").click()
        assert await row.evaluate("(row) => row.offsetHeight") < tall
        await page.goto("/workers")
        await expect(page.get_by_role("button", name="Compact")).to_have_attribute("aria-pressed", "true")
        assert seen.faults == []


async def test_without_a_script_there_is_nothing_to_choose(browser: Browser, street: Holdfast) -> None:
    port, session = free_port(), await made_token(street, "viewer", kind="session")
    async with (
        serving(street, port),
        browsing(browser, f"http://127.0.0.1:{port}", session, java_script_enabled=False) as seen,
    ):
        for path in ("/queues", "/jobs"):
            await seen.page.goto(path)
            await expect(seen.page.get_by_text("Columns")).to_have_count(0)
            await expect(seen.page.get_by_role("button", name="Compact")).to_have_count(0)
            await expect(seen.page.get_by_role("link", name="JSON")).to_be_visible()
        await expect(seen.page.get_by_role("columnheader", name="Actor")).to_be_hidden()
