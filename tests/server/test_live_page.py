"""Live pages in a real browser: a bar moves while a worker elsewhere works, and a stream survives its server."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import Browser, Page, expect

from holdfast import Holdfast, JobHandle
from holdfast.server import serving as server_serving
from holdfast.server.connection import Connection
from tests.server.browser import IN_BROWSER, Browsing, browsing
from tests.server.following import made_token
from tests.server.test_streams import live_of
from tests.support.ports import free_port
from tests.support.wait import PATIENCE_S, until

pytestmark = IN_BROWSER

TASKS = """
import asyncio
from pathlib import Path

from holdfast import Context, Holdfast

app = Holdfast("sqlite:///jobs.db")


@app.task
async def haul(ctx: Context) -> None:
    for step in (20, 40, 60, 70, 80):
        await ctx.progress(step, f"at step {step}")
        while not Path(f"go-{step}").exists():
            await asyncio.sleep(0.02)
"""


@asynccontextmanager
async def worker_elsewhere(folder: Path) -> AsyncIterator[None]:
    """Work in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = (sys.executable, "-m", "holdfast", "worker", "-A", "hauling:app")
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment, stdout=quiet, stderr=quiet)
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def serving(app: Holdfast, port: int) -> AsyncIterator[uvicorn.Server]:
    """Serve the app on a port; leaving the block stops the server."""
    listening = socket.create_server(("127.0.0.1", port))
    asgi = app.asgi()
    config = uvicorn.Config(asgi, http=Connection, log_config=None, lifespan="off", ws="none")
    server = server_serving.Server(config, most=100)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await until(lambda: server.started, "it serves")
        yield server
    finally:
        server.should_exit = True
        async with asyncio.timeout(PATIENCE_S):
            await running
        assert live_of(asgi).open == 0


@pytest_asyncio.fixture(loop_scope="session")
async def hauling(tmp_path: Path) -> AsyncIterator[Holdfast]:
    """An app whose worker runs elsewhere."""
    (tmp_path / "hauling.py").write_text(TASKS)
    async with Holdfast(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


async def at(page: Page, percent: int) -> None:
    """Wait until the bar of the job shows so much, without the page being loaded again."""
    bar = page.locator("[data-part] progress").first
    await expect(bar).to_have_attribute("value", str(percent), timeout=PATIENCE_S * 1_000)


async def state(page: Page, word: str) -> None:
    """Wait until the page says that it is live, or not."""
    await expect(page.locator("body")).to_have_attribute("data-live-state", word, timeout=PATIENCE_S * 1_000)


async def hide(page: Page, *, hidden: bool) -> None:
    """Put another tab before the page, or take it away."""
    await page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


async def opened(viewer: Browsing, job: JobHandle[None]) -> Page:
    """Open the page of a job, and mark it: what is loaded again has no mark."""
    page = viewer.page
    await page.goto(f"/jobs/{job.id}")
    await page.evaluate("() => { window.isTheSamePage = true; }")
    return page


@pytest.mark.timeout(120)
async def test_a_bar_moves_while_a_worker_elsewhere_works_and_survives_the_server(
    browser: Browser, hauling: Holdfast, tmp_path: Path
) -> None:
    port, (session, _) = free_port(), await made_token(hauling, role="operator", kind="session", lasts_ms=600_000)

    @hauling.task
    async def haul() -> None: ...

    job = await haul.enqueue()
    async with browsing(browser, f"http://127.0.0.1:{port}", session) as viewer, worker_elsewhere(tmp_path):
        async with serving(hauling, port):
            page = await opened(viewer, job)
            await state(page, "live")
            await at(page, 20)
            (tmp_path / "go-20").touch()
            await at(page, 40)

            # Nothing comes while it is paused, and everything when it goes on.
            await page.locator("[data-live-toggle]").click()
            await state(page, "paused")
            await until(lambda: not hauling.client.watching.watchers, "the stream is closed")
            (tmp_path / "go-40").touch()
            await until_progress(job, 60)
            await at(page, 40)
            await page.locator("[data-live-toggle]").click()
            await at(page, 60)

            # Nothing moves while somebody types, and everything comes when they have done.
            await page.evaluate(_TYPE)
            (tmp_path / "go-60").touch()
            await page.wait_for_function("() => window.heard", timeout=PATIENCE_S * 1_000)
            assert await page.evaluate(_STILL)
            await at(page, 60)
            await page.evaluate("() => clearInterval(window.typing)")
            await at(page, 70)

            # A page that nobody looks at follows nothing.
            await hide(page, hidden=True)
            await until(lambda: not hauling.client.watching.watchers, "the stream is closed")
            await hide(page, hidden=False)
            await state(page, "live")
            assert viewer.faults == []

        # Nor is anything lost when the server is restarted.
        await state(page, "waiting")
        (tmp_path / "go-70").touch()
        await until_progress(job, 80)
        async with serving(hauling, port):
            await state(page, "live")
            viewer.faults.clear()  # a browser says of each request that nobody answered it
            await at(page, 80)
            (tmp_path / "go-80").touch()
            await expect(page.locator("main")).to_contain_text("completed", timeout=PATIENCE_S * 1_000)
            assert await page.evaluate("() => window.isTheSamePage"), "the page was loaded again"
            assert viewer.faults == []


_TYPE = """() => {
    const box = document.querySelector("#search");
    window.typing = setInterval(() => box.dispatchEvent(new Event("input", { bubbles: true })), 50);
    document.body.addEventListener("holdfast:event", () => { window.heard = true; });
}"""
_STILL = """() => new Promise((done) => {
    const watching = new MutationObserver(() => done(false));
    const part = document.querySelector("[data-part=progress]");
    watching.observe(part, { childList: true, subtree: true, attributes: true });
    setTimeout(() => done(true), 1500); // a page is refreshed once a second
})"""


async def until_progress(job: JobHandle[None], percent: float) -> None:
    """Wait until a job has come so far."""

    async def is_there() -> bool:
        progress = (await job.get()).progress
        return progress is not None and progress.percent == percent

    await until(is_there, f"it is at {percent}")
