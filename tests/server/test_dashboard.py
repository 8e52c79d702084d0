"""The dashboard in a real browser: two themes, two widths, by keyboard; nothing complains or leaves the machine."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from holdfast import Context, Fatal, Holdfast, Queue, Retry, public_id
from holdfast.job import JobState
from tests.server.browser import IN_BROWSER, browsing
from tests.server.hostile import HOSTILE
from tests.server.test_live_page import serving
from tests.support.builders import enqueue_many
from tests.support.ports import free_port
from tests.support.wait import PATIENCE_S
from tests.support.web import made_token
from tests.support.workers import drained, until_state

pytestmark = IN_BROWSER

WIDTHS = (1280, 390)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LOOKS = tuple(zip(THEMES, WIDTHS, strict=True))  # a theme changes colours, and no widths


@pytest.fixture
def pictures() -> Path | None:
    """Where pictures of pages are kept, for people to look at: the folder that HOLDFAST_PICTURES names."""
    if (named := os.environ.get("HOLDFAST_PICTURES")) is None:
        return None
    folder = Path(named)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest_asyncio.fixture(loop_scope="session")
async def shop(tmp_path: Path) -> AsyncIterator[Holdfast]:
    """An app that has worked for a while: jobs in every state, phases, items, failures, hostile texts."""
    app = Holdfast(
        f"sqlite:///{tmp_path}/jobs.db",
        queues=[
            Queue("urgent", priority=0, colour="#c0392b", sla="10s", description="Customers wait for it"),
            Queue("reports", priority=2, colour="#8e44ad", description="Long, with progress"),
            Queue("mail", priority=4, colour="#2980b9", sla="1m", description="Letters and labels"),
            Queue("bulk", priority=8, colour="#27ae60", description="Whenever there is room"),
        ],
        synchronous="normal",
    )
    holding = asyncio.Event()
    tries: list[int] = []

    @app.task(queue="mail", max_attempts=1)
    async def send_mail(to: str, subject: str = "hi") -> dict[str, str]:
        if "nobody" in to:
            message = f"the mail server does not know {to}"
            raise Fatal(message)
        return {"to": to, "id": "<20261116@example.org>"}

    @app.task(queue="urgent", max_attempts=3)
    async def charge(order: int) -> None:
        tries.append(order)
        if len(tries) < 3:
            message = "the bank is busy"
            raise Retry(0.05) from RuntimeError(message)

    @app.task(queue="reports", phases=("collect", "render", "publish"))
    async def report(ctx: Context, month: str, pages: list[str]) -> None:
        async with ctx.phase("collect"):
            await ctx.progress(100, "12,408 rows")
        ctx.log.info("collected for %s\nin two parts", month)
        async with ctx.phase("render"):
            async with ctx.items("pages", pages, concurrency=2) as items:
                await items.each(lambda key: None)
            await ctx.progress(62, "page 5 of 8")
            await holding.wait()

    async with app:
        for number in range(14):
            await app.enqueue(send_mail.call(to=f"customer{number}@example.org"))
        await app.enqueue_many(send_mail.call(to=f"nobody{number}@example.org") for number in range(3))
        for text in HOSTILE:
            await app.enqueue(send_mail.using(tags={"note": text}, actor=text).call(to=text, subject=text))
        await app.enqueue(charge.call(order=17))
        await drained(app)
        running = await app.enqueue(report.call(month="2026-10", pages=[f"page-{number}" for number in range(8)]))
        working = asyncio.create_task(app.run_worker())
        await until_state(running, JobState.RUNNING)
        await app.queues.pause("bulk", actor="carol", reason="the disk is nearly full")
        await app.enqueue_many(
            send_mail.using(delay=f"{number}h").call(to=f"later{number}@example.org") for number in (1, 2, 3)
        )
        yield app
        holding.set()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def read_through(page: Page) -> None:
    """Read a page, which has a heading and labels however it is drawn."""
    await expect(page.locator("h1")).to_have_count(1)
    unnamed = """[...document.querySelectorAll('input:not([type=hidden]), select, textarea')].filter(
        (field) => !field.labels?.length && !field.getAttribute('aria-label')).map((field) => field.outerHTML)"""
    assert await page.evaluate(unnamed) == []


async def looked_at(page: Page, picture: Path | None) -> None:
    """Look at a page, which fits its width."""
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{page.url} is too wide"
    if picture is not None:
        await page.screenshot(path=picture, full_page=True)


@pytest.mark.timeout(180)
async def test_pages_in_both_themes_and_widths(browser: Browser, shop: Holdfast, pictures: Path | None) -> None:
    port, session = free_port(), await made_token(shop, "admin", kind="session", lasts_ms=600_000)
    found = {job.kind: job async for job in shop.jobs.iterate()}
    long = f"receipt_{'x' * 56}"
    children = await enqueue_many(shop.store, 2, kind=long, queue="bulk", parent=found["report"].number)
    addresses = {
        "overview": "/",
        "jobs": "/jobs",
        "failed": "/jobs?q=state:failed",
        "none": "/jobs?q=kind:nothing",
        "mistake": "/jobs?q=sate:failed",
        "running": f"/jobs/{found['report'].id}",
        "child": f"/jobs/{public_id.encode(children[0])}",
        "retried": f"/jobs/{found['charge'].id}",
        "bulk": "/jobs/bulk?verb=delete&q=state:failed&all=yes",
        "replay": f"/jobs/{found['charge'].id}/clone",
        "problem": "/queues/nothing",
    }
    async with serving(shop, port), browsing(browser, f"http://127.0.0.1:{port}", session) as viewer:
        viewer.page.on("dialog", lambda dialog: viewer.faults.append(f"it has run what it shows: {dialog.message}"))
        for name, address in addresses.items():
            await viewer.page.goto(address)
            await read_through(viewer.page)
            for theme, width in LOOKS if pictures is None else itertools.product(THEMES, WIDTHS):
                await viewer.page.emulate_media(color_scheme=theme)
                await viewer.page.set_viewport_size({"width": width, "height": 900})
                assert await viewer.page.evaluate(_CONTRAST) == [], f"{name} is hard to read in the {theme} theme"
                await looked_at(viewer.page, None if pictures is None else pictures / f"{name}-{theme}-{width}.png")
            if name == "jobs":  # on a telephone the pages are behind a button, which needs no script
                await expect(viewer.page.locator(".nav")).to_be_hidden()
                await viewer.page.locator(".menu-button").click()
                await expect(viewer.page.get_by_role("link", name="Dead letters")).to_be_visible()
                await read_through(viewer.page)
                await looked_at(viewer.page, None if pictures is None else pictures / "menu.png")
            wrong = {"mistake": "status of 422", "problem": "status of 404"}.get(name)
            viewer.faults[:] = [fault for fault in viewer.faults if wrong is None or wrong not in fault]
        assert viewer.faults == []


_CONTRAST = """() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const parse = (colour) => {
    if (!known.has(colour)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
      known.set(colour, [red, green, blue, alpha / 255]);
    }
    return known.get(colour);
  };
  const light = ([red, green, blue]) => {
    const part = (value) => (value <= 10 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  };
  const over = (top, below) => [0, 1, 2].map((index) => top[index] * top[3] + below[index] * (1 - top[3]));
  const grounds = new Map([[null, [255, 255, 255]]]);
  const behind = (element) => {
    if (!grounds.has(element)) {
      const own = parse(getComputedStyle(element).backgroundColor);
      grounds.set(element, over(own, behind(element.parentElement)));
    }
    return grounds.get(element);
  };
  const bad = new Set();
  for (const element of document.querySelectorAll("main *, .nav *, .bar *, .foot *, .toasts *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("svg, [disabled], option")) continue;
    const ground = behind(element);
    const colour = parse(getComputedStyle(element).color);
    const [one, two] = [light(over(colour, ground)), light(ground)];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    const said = `${element.className} ${ratio.toFixed(2)} ${element.textContent.slice(0, 30)}`;
    if (ratio < 4.5) bad.add(`${element.tagName}.${said}`);
  }
  return [...bad];
}"""


@pytest.mark.timeout(120)
async def test_by_keyboard(browser: Browser, shop: Holdfast) -> None:
    port, session = free_port(), await made_token(shop, "operator", kind="session", lasts_ms=600_000)
    async with serving(shop, port), browsing(browser, f"http://127.0.0.1:{port}", session) as viewer:
        page = viewer.page
        await page.goto("/jobs?q=state:failed")
        await page.keyboard.press("r")  # nothing moves under the hands
        await expect(page.locator("body")).to_have_attribute("data-live-state", "paused")
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        await expect(page.locator("[data-row]").first).to_have_class("current")
        await page.keyboard.press("x")
        await expect(page.locator("[data-picked]")).to_have_text("1 selected")
        first = await page.locator("[data-row]").first.get_attribute("data-row")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/jobs/{first}")
        await page.keyboard.press("Escape")
        await page.wait_for_url("**/jobs?q=state:failed")
        await page.keyboard.press("/")
        await expect(page.locator("#filter")).to_be_focused()
        await page.keyboard.type(str(first))
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/jobs/{first}")
        await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as on plain HTTP
        await page.get_by_role("button", name="Copy id").click()
        await expect(page.locator(".toast")).to_have_text("Copied.")
        await page.keyboard.press("?")
        await expect(page.locator("#shortcuts")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.locator("#shortcuts")).to_be_hidden()
        for theme in ("light", "dark", "auto"):
            await page.keyboard.press("t")
            await expect(page.locator("html")).to_have_attribute("data-theme", theme)
        await page.keyboard.press("z")
        await expect(page.locator("[data-times]")).to_have_text("local")
        await page.reload()
        await expect(page.locator("[data-times]")).to_have_text("local", timeout=PATIENCE_S * 1_000)
        await page.keyboard.press("g")
        await page.keyboard.press("o")
        await page.wait_for_url(f"http://127.0.0.1:{port}/")
        await expect(page.locator(".chart.drawn canvas")).to_have_count(1)
        assert viewer.faults == []


@pytest.mark.timeout(120)
async def test_bulk_actions_and_columns_in_the_browser(browser: Browser, shop: Holdfast) -> None:
    port, session = free_port(), await made_token(shop, "admin", kind="session", lasts_ms=600_000)
    async with serving(shop, port), browsing(browser, f"http://127.0.0.1:{port}", session) as viewer:
        page = viewer.page
        await page.goto("/jobs?q=state:scheduled")
        await expect(page.locator(".tabs .count").first).to_be_visible()
        await page.locator(".over .drop summary").click()
        await page.locator("[data-column=args]").uncheck()
        await expect(page.locator("th.c-args")).to_be_hidden()
        await page.get_by_role("button", name="Compact").click()
        await page.get_by_role("button", name="Save this view").click()
        await page.get_by_label("Name of this view").fill("to come")
        await page.keyboard.press("Enter")
        await page.locator("#filter").fill("state:scheduled kind:send_m")
        await expect(page.locator("#choices option")).to_have_attribute("value", "state:scheduled kind:send_mail")
        await page.goto("/jobs")
        await expect(page.locator("th.c-args")).to_be_hidden()
        await expect(page.locator("html")).to_have_attribute("data-density", "compact")
        await page.get_by_role("link", name="to come").click()
        await page.wait_for_url("**/jobs?q=state%3Ascheduled")
        await expect(page.get_by_role("button", name="Save this view")).to_have_count(0)
        await page.locator("[data-pick-all]").check()
        await page.locator("#verb").select_option("cancel")
        await page.get_by_role("button", name="to the selected").click()
        await expect(page.locator("h1")).to_have_text("Cancel 3 jobs that you chose")
        await page.get_by_role("button", name="Cancel 3 jobs").click()
        await page.wait_for_url("**/jobs?q=state%3Ascheduled")
        await expect(page.locator(".toast")).to_have_text("3 jobs cancelled.")
        await expect(page.locator(".empty")).to_be_visible()
        await page.get_by_role("button", name="Forget the view to come").click()
        await expect(page.get_by_role("link", name="to come")).to_have_count(0)

        # What was done by mistake is taken back.
        await shop.queues.pause("mail")
        job = await shop.enqueue(shop.tasks.get("send_mail").call(to="ann@example.org"))
        await page.goto(f"/jobs/{job.id}")
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator(".why")).to_contain_text("cancelled")
        assert await page.evaluate(_CONTRAST) == []
        await page.get_by_role("button", name="Undo").click()
        await expect(page.locator(".toast")).to_have_text("It is in line again.")
        assert (await job.get()).state is JobState.QUEUED
        assert viewer.faults == []


@pytest.mark.timeout(120)
async def test_pages_work_without_a_script(browser: Browser, shop: Holdfast) -> None:
    port, session = free_port(), await made_token(shop, "operator", kind="session", lasts_ms=600_000)
    async with (
        serving(shop, port),
        browsing(browser, f"http://127.0.0.1:{port}", session, java_script_enabled=False) as viewer,
    ):
        page = viewer.page
        await page.goto("/")
        await expect(page.locator(".card")).to_have_count(4)
        await expect(page.locator(".chart .pulse")).to_be_visible()
        await page.goto("/jobs")
        await page.locator("#filter").fill("state:scheduled")
        await page.get_by_role("button", name="Filter").click()
        await expect(page.locator("[data-row]")).to_have_count(3)
        await expect(page.locator("time").first).to_contain_text("UTC")
        await page.locator("[data-row] a").first.click()
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator(".toast")).to_have_text("Cancelled.")
        await expect(page.locator(".state.s-cancelled").first).to_be_visible()
        assert viewer.faults == []
