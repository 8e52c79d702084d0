"""Draw the pictures of the README: `python scripts/screenshots.py`, or `make screenshots`.

`holdfast demo` makes the data; a server and a worker show it, and the system's Chromium looks at some pages, in light
and dark, on a desk and on a telephone. The pictures lie in `docs/images/`.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, async_playwright

FOLDER = Path(__file__).parents[1] / "docs" / "images"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
LARGEST_BYTES = 150_000
APP = ("-A", "holdfast.demo.app:app")
STORE = "HOLDFAST_DEMO_STORE"
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync")
DESK, HIGH, TELEPHONE = (1280, 800), (1280, 1000), (390, 780)
CALLS = (
    "send_mail to=ada@example.org",
    "call_courier order=22",
    "charge_card order=23 works_on=2",
    "import_catalogue supplier=cedar",
    "export year=2022",
    "describe_photo photo=chair.jpg",
    "export year=2023",
    "print_label order=24",
    "export year=2024",
)
CALM_S = 4.0  # until live pages have drawn themselves


@dataclass(frozen=True)
class Picture:
    """One picture: what is opened, in which scheme, and how large."""

    name: str
    path: str
    scheme: Literal["light", "dark"]
    size: tuple[int, int]


def pictures(job: str) -> list[Picture]:
    """List what is drawn."""
    return [
        Picture("jobs-dark", "jobs", "dark", DESK),  # first, while some of them run
        Picture("overview", "", "light", HIGH),
        Picture("job", f"jobs/{job}", "light", DESK),
        Picture("overview-telephone", "", "dark", TELEPHONE),
    ]


def run(*args: str, **environment: str) -> str:
    """Run a command to its end, and give what it printed."""
    done = subprocess.run(  # noqa: S603 - our own commands
        [sys.executable, "-m", "holdfast", *args],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    return done.stdout


@asynccontextmanager
async def beside(store: str, *args: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Let a command run beside the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", *args, *APP),
        env={**os.environ, STORE: store, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def draw(browser: Browser, address: str, picture: Picture) -> None:
    """Draw one picture."""
    width, height = picture.size
    context = await browser.new_context(viewport={"width": width, "height": height}, color_scheme=picture.scheme)
    page = await context.new_page()
    await page.goto(f"{address}{picture.path}")
    await asyncio.sleep(CALM_S)
    file = FOLDER / f"{picture.name}.png"
    await page.screenshot(path=file, animations="disabled")
    await context.close()
    print(f"{file.relative_to(FOLDER.parents[1])}: {file.stat().st_size:,} bytes")
    if file.stat().st_size > LARGEST_BYTES:
        message = f"{file}: expected at most {LARGEST_BYTES:,} bytes"
        raise SystemExit(message)


async def main() -> None:
    """Make the data, and draw all pictures of it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-pictures-") as folder:
        told = run("demo", "--exit", "--keep", TMPDIR=folder)
        store = re.findall(r"^store: (\S+)$", told, re.MULTILINE)[0]
        job = run("jobs", "list", "--store", store, "--kind", "import_catalogue", "--quiet").split()[0]
        async with beside(store, "serve", "--port", "0") as server, beside(store, "worker"):
            said = b"" if server.stdout is None else await server.stdout.readline()
            address = re.findall(r"http://\S+", said.decode())[0]
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
                for call in CALLS:
                    run("enqueue", *call.split(), *APP, **{STORE: store})
                for picture in pictures(job):
                    await draw(browser, address, picture)
                await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
