"""A web program that enqueues jobs, runs them, and shows the dashboard under one of its paths, to its own users.

`uvicorn examples.web:web` serves it; the dashboard is at http://127.0.0.1:8000/jobs/.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from fastapi import FastAPI, Request

from holdfast import Holdfast, Principal, Role, ServerSettings

app = Holdfast("sqlite:///jobs.db")
STAFF = {"ada": Role.OPERATOR}


@app.task
async def ship(order: int) -> str:
    """Stand for real work."""
    return f"order {order} is on its way"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Run jobs as long as the program lives."""
    stop = asyncio.Event()
    async with app:
        worker = asyncio.create_task(app.run_worker(stop=stop))
        yield
        stop.set()
        await worker


def authorize(request: Request) -> Principal | None:
    """Say who asks; a cookie stands for the sessions that a program has."""
    name = request.cookies.get("user", "")
    return Principal(name, STAFF[name]) if name in STAFF else None


web = FastAPI(lifespan=lifespan)
web.mount("/jobs", app.asgi(ServerSettings(authorize=authorize)))


@web.post("/orders/{number}")
async def order(number: int) -> dict[str, str]:
    """Take an order; a second request for the same one is no second job."""
    return {"job": (await ship.using(key=f"order-{number}").enqueue(number)).id}


async def main() -> None:
    """Ask it what a browser would."""
    transport = httpx2.ASGITransport(app=web)
    async with (
        web.router.lifespan_context(web),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as browser,
    ):
        job = (await browser.post("/orders/17")).json()["job"]
        print("the same job:", (await browser.post("/orders/17")).json()["job"] == job)
        await app.jobs.wait(job)
        print("a stranger:", (await browser.get(f"/jobs/api/v1/jobs/{job}")).status_code)
        browser.cookies.set("user", "ada")
        print("ada:", (await browser.get(f"/jobs/api/v1/jobs/{job}")).json()["result"])


if __name__ == "__main__":
    asyncio.run(main())
