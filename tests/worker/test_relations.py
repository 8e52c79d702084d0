"""What a handler enqueues, by whatever way, names its job as the parent; what others enqueue names none."""

import asyncio
from typing import Any

from holdfast import Context, Holdfast, JobState, Pipeline, phase
from tests.support.wait import PATIENCE_S
from tests.support.workers import MakeApp, drained, ran


async def children(app: Holdfast, parent: str) -> list[Any]:
    """The arguments of the jobs that a handler enqueued, sorted."""
    found = await app.jobs.search(f"parent:{parent}")
    assert found.searched_to is None
    return sorted(job.args["how"] for job in found.jobs)


async def test_a_handler_is_the_parent_of_what_it_enqueues(make_app: MakeApp) -> None:
    app = make_app()

    @app.task
    async def child(how: str) -> None: ...

    @app.task
    async def spread(ctx: Context) -> None:
        await child.enqueue("one")
        await app.enqueue_many([child.call("many"), child.call("many too")])
        await child.using(unique="u", delay="1h").enqueue("later")
        await asyncio.create_task(child.enqueue("task"))
        async with ctx.transaction() as tx:
            await child.using(connection=tx.connection).enqueue("transaction")
            await app.enqueue_many([child.call("transactions")], connection=tx.connection)

    @app.task
    def spread_in_a_thread() -> None:
        with app.blocking() as queue:
            queue.enqueue(child.call("thread"))

    @app.task
    class Steps(Pipeline):
        @phase
        async def first(self, _ctx: Context) -> None:
            await child.enqueue("phase")

    async with app:
        before = await child.enqueue("nobody")
        jobs = await ran(app, await spread.enqueue(), await spread_in_a_thread.enqueue(), await Steps().enqueue())
        assert {job.state for job in jobs} == {JobState.COMPLETED}, [job.error for job in jobs]
        after = await child.enqueue("nobody")
        every = ["later", "many", "many too", "one", "task", "transaction", "transactions"]
        assert [await children(app, job.id) for job in jobs] == [every, ["thread"], ["phase"]]
        assert [job.parent for job in (*jobs, await before.get(), await after.get())] == [None] * 5
        (child_job,) = (await app.jobs.search(f"parent:{jobs[1].id}")).jobs
        assert (child_job.state, child_job.parent) == (JobState.COMPLETED, jobs[1].id)


async def test_jobs_that_run_at_once_have_their_own_children(make_app: MakeApp) -> None:
    app = make_app()
    both = asyncio.Barrier(2)

    @app.task
    async def child(how: str) -> None: ...

    @app.task
    async def spread(how: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await both.wait()
        await child.enqueue(how)

    async with app:
        a, b = await ran(app, await spread.enqueue("a"), await spread.enqueue("b"))
        assert (await children(app, a.id), await children(app, b.id)) == (["a"], ["b"])


async def test_what_a_handler_replays_names_both(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory()

    @app.task
    async def work(how: str) -> None: ...

    @app.task
    async def mend(wrong: str) -> str:
        return (await app.jobs.clone(wrong, {"how": "well"})).id

    async with app:
        wrong = await work.enqueue("badly")
        await drained(app)
        (mended,) = await ran(app, await mend.enqueue(wrong.id))
        new = await app.jobs.get(mended.result)
        assert (new.origin, new.parent) == (wrong.id, mended.id)
        assert [job.id for job in (await app.jobs.search(f"origin:{wrong.id}")).jobs] == [new.id]
