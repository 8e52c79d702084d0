"""The app of the tests of leaders: a job each second, and every process writes down while it believes to lead."""

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

from holdfast import Context, Holdfast, WorkerSettings
from holdfast.services import leader

ENV = os.environ
LEDGER = Path(ENV.get("CHAOS_LEDGER", os.devnull))
LOOK_S = 0.02

app = Holdfast(
    ENV.get("CHAOS_URL", "sqlite://"),
    schema=ENV.get("CHAOS_SCHEMA", "holdfast"),
    worker=WorkerSettings(concurrency=8, shutdown_grace="5s"),
    synchronous="normal",
)


def note(*words: object) -> None:
    """Append one line to the ledger; O_APPEND keeps lines of many processes apart."""
    file = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(file)


@app.schedule(every="1s", overlap="queue", missed="all", args={})
@app.task
async def tick(ctx: Context) -> None:
    """Note which time it is for."""
    note("tick", ctx.job.number, time.time(), ctx.fire_time and ctx.fire_time.timestamp())


@app.task
async def due(ctx: Context) -> None:
    """Note when it began and when it was due."""
    note("due", ctx.job.number, time.time(), ctx.job.run_at.timestamp())


class Watched(leader.StoreLeader):
    """A leader that a thread looks at all the time, as somebody would who acts on it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        lease_s = float(ENV.get("TICKING_LEASE", leader.LEASE_S))
        share = lease_s / leader.LEASE_S
        times = {"lease_s": lease_s, "renew_s": leader.RENEW_S * share, "campaign_s": leader.CAMPAIGN_S * share}
        super().__init__(*args, **(times | options))
        threading.Thread(target=self._look, daemon=True).start()

    async def serve(self) -> None:
        """Stand aside if this process is to run jobs only."""
        if "TICKING_ASIDE" not in ENV:
            await super().serve()

    def _look(self) -> None:
        while True:
            if self.is_leader:
                note("leads", os.getpid(), time.monotonic(), self.term)
            time.sleep(LOOK_S)  # between two looks of a process that acts on it


if "CHAOS_URL" in ENV:  # only in the processes under test
    leader.StoreLeader = Watched  # type: ignore[misc] # what `holdfast services run` and workers make is watched


async def work() -> None:
    """Run jobs, and nothing else, until somebody ends this process."""
    async with app:
        await app.run_worker()


if __name__ == "__main__":
    asyncio.run(work())
