"""A real browser: the system's Chromium, which finds fault with whatever a person would not see."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.support import debian

IN_BROWSER = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("browser")]
"""Marks of tests with a browser: all of them share one, which lives in one event loop of one process."""


ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browsing:
    """A page, and everything about it that is a fault: errors on its console, and requests that leave this machine."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", lambda request: self._see(request.url))

    def _hear(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:  # a violation of the content security policy is one too
            self.faults.append(f"{kind}: {text}")

    def _see(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"data", "blob"} and parts.hostname != "127.0.0.1":
            self.faults.append(f"request: {url}")


@asynccontextmanager
async def started() -> AsyncIterator[Browser]:
    """Start the browser."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=debian.chromium(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def browsing(
    browser: Browser, base_url: str, session: str | None = None, **options: Any
) -> AsyncIterator[Browsing]:
    """Open a page, logged in with the secret of a session; it shares nothing with the pages of other tests.

    `options` are those of playwright's `new_context`.
    """
    context = await browser.new_context(base_url=base_url, **options)
    try:
        if session is not None:
            await context.add_cookies([{"name": "holdfast_session", "value": session, "url": base_url}])
        yield Browsing(await context.new_page())
    finally:
        await context.close()
