"""What some may know and do, and others not, where a route alone does not decide it."""

import asyncio

import httpx2
import pytest

from holdfast import Holdfast, Limit
from holdfast.stores.bulk import BulkVerb
from holdfast.stores.values import JobFilter, WorkerInfo
from tests.server.visiting import bearing, made_pass, visit
from tests.worker.working import MakeApp

RESUMING = ("/api/v1/bulk/{run}/resume", "/jobs/runs/{run}/resume", "/dead-letters/runs/{run}/resume")


@pytest.mark.parametrize("path", RESUMING)
async def test_a_run_that_deletes_goes_on_for_admins_only(memory_app: Holdfast, path: str) -> None:
    run = await memory_app.client.start_bulk(BulkVerb.DELETE, JobFilter(kinds=("nothing",)))
    await memory_app.client.pause_bulk(run.id)
    async with visit(memory_app) as web:

        async def ask(role: str, path: str) -> httpx2.Response:
            secret = await made_pass(memory_app, role)
            return await web.post(path.format(run=run.id), headers=bearing(secret))

        refused = await ask("operator", path)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:holdfast:role")
        assert (await memory_app.client.bulk_run(run.id)).state == "paused"
        assert (await ask("admin", path)).status_code in (200, 303)
        assert (await ask("operator", path.replace("resume", "cancel"))).status_code in (200, 303), "that does no harm"


async def test_jobs_of_others_are_not_named_as_those_that_one_waits_for(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory(
        limits=[
            Limit(name="one", kinds=["holds", "waits"], concurrency=1),
            Limit(name="row", kinds=["first", "second"], key="payload.to", fifo=True),
        ]
    )
    go = asyncio.Event()
    for kind, queue in (("holds", "theirs"), ("waits", "mine"), ("first", "theirs"), ("second", "mine")):

        @app.task(kind=kind, queue=queue)
        async def work(to: str = "all") -> None:
            assert to
            await go.wait()

    async with app, visit(app) as web, asyncio.timeout(30):
        mine = bearing(await made_pass(app, "viewer", queues=("mine",)))
        everything = bearing(await made_pass(app, "viewer"))
        jobs = {kind: await app.tasks.get(kind).enqueue() for kind in ("holds", "first")}
        working = asyncio.create_task(app.run_worker(until="empty"))
        while {(await job.get()).state for job in jobs.values()} != {"running"}:
            await asyncio.sleep(0.01)
        jobs |= {kind: await app.tasks.get(kind).enqueue() for kind in ("waits", "second")}
        while {(await jobs[kind].get()).state for kind in ("waits", "second")} != {"held"}:
            await asyncio.sleep(0.01)
        for other, job in (("holds", "waits"), ("first", "second")):
            for path in (f"/api/v1/jobs/{jobs[job].public_id}/why", f"/jobs/{jobs[job].public_id}"):
                shown, hidden = [(await web.get(path, headers=who)).text for who in (everything, mine)]
                assert jobs[other].public_id in shown, path
                assert jobs[other].public_id not in hidden, path
                assert f"({other})" not in hidden, path
        info = WorkerInfo(instance="i", host="h", pid=1, queues=("mine", "theirs"), concurrency=1)
        await app.store.register_worker(info, 60_000)
        for path in ("/api/v1/workers", "/workers"):
            shown, hidden = [(await web.get(path, headers=who)).text for who in (everything, mine)]
            assert "theirs" in shown
            assert "theirs" not in hidden
        go.set()
        await working
