"""Real Arq worker processes run Holdfast's jobs; whatever happens to them or to Redis, each job completes once."""

import signal

import pytest

from holdfast import Holdfast, JobHandle, JobState
from holdfast.backends.arq import ArqQueueBackend
from holdfast.delivery.arq import FUNCTION
from tests.arq.conftest import Fleet
from tests.support.valkey import Valkey
from tests.support.wait import until

WITHIN = "30s"


async def is_known(backend: ArqQueueBackend, delivery: str) -> bool:
    return await backend.get_job_metadata(delivery) is not None


async def gone(backend: ArqQueueBackend, delivery: str) -> None:
    """Wait until Arq has nothing more to do with a call."""

    async def is_gone() -> bool:
        return not await is_known(backend, delivery)

    await until(is_gone, "Arq has nothing more to do with it")


async def test_jobs_run_end_to_end(fleet: Fleet, app: Holdfast) -> None:
    fleet.start()
    handles = [await app.enqueue(app.tasks.get("work").call(f"n{number}")) for number in range(20)]
    assert [await handle.result(WITHIN) for handle in handles] == [f"N{number}" for number in range(20)]
    assert sorted(fleet.noted) == sorted(f"{word} n{number}" for number in range(20) for word in ("begin", "end"))
    assert FUNCTION in fleet.said
    assert "failed" not in fleet.said


@pytest.mark.real_time
async def test_killed_worker_is_recovered_and_its_job_completes_once(fleet: Fleet, app: Holdfast) -> None:
    fleet.close_gate("slow")
    first = fleet.start()
    handle = await app.enqueue(app.tasks.get("work").call("slow"))
    await fleet.until_noted("begin slow")
    first.kill()
    first.wait()
    fleet.open_gate("slow")
    fleet.start()
    assert await handle.result(WITHIN) == "SLOW"
    assert fleet.noted == ["begin slow", "begin slow", "end slow"]
    job = await app.jobs.get(handle.id)
    assert (job.state, job.claim, job.crashes) == (JobState.COMPLETED, 2, 1)


@pytest.mark.real_time
@pytest.mark.sample  # the store has no part in it
async def test_delivery_of_a_dead_worker_is_repeated_without_harm(
    fleet: Fleet, app: Holdfast, backend: ArqQueueBackend, server: Valkey
) -> None:
    fleet.close_gate("slow")
    first = fleet.start()
    handle = await app.enqueue(app.tasks.get("work").call("slow"))
    await fleet.until_noted("begin slow")
    delivery = f"{handle.id}-0"
    await backend.enqueue_many(FUNCTION, {delivery: {"job": handle.id, "delivery": delivery}})
    first.kill()
    first.wait()
    server.ask("DEL", f"arq:in-progress:{delivery}")  # which would expire some minutes later
    server.ask("SET", f"arq:retry:{delivery}", 7)
    fleet.open_gate("slow")
    fleet.start()
    await gone(backend, delivery)
    assert await handle.result(WITHIN) == "SLOW"
    assert fleet.noted == ["begin slow", "begin slow", "end slow"]
    assert "exceeded" not in fleet.said


async def test_redelivery_of_a_running_job_is_harmless(fleet: Fleet, app: Holdfast, backend: ArqQueueBackend) -> None:
    fleet.close_gate("slow")
    fleet.start()
    fleet.start()
    handle = await app.enqueue(app.tasks.get("work").call("slow"))
    await fleet.until_noted("begin slow")
    delivery = f"{handle.id}-0"
    payload = {"job": handle.id, "delivery": delivery}
    await backend.enqueue_many(FUNCTION, {delivery: payload, f"{delivery}-again": payload})
    await gone(backend, f"{delivery}-again")
    assert fleet.noted == ["begin slow"]
    fleet.open_gate("slow")
    assert await handle.result(WITHIN) == "SLOW"
    await gone(backend, delivery)
    await backend.enqueue_many(FUNCTION, {delivery: payload})  # an old one, after the job has moved on
    await gone(backend, delivery)
    assert fleet.noted == ["begin slow", "end slow"]
    assert (await app.jobs.get(handle.id)).claim == 1


async def is_in(handle: JobHandle[str], state: JobState) -> bool:
    return (await handle.get()).state is state


async def test_retry_is_delivered_afresh(fleet: Fleet, app: Holdfast, backend: ArqQueueBackend) -> None:
    first = fleet.start()
    handle = await app.enqueue(app.tasks.get("flaky").call("once"))
    await until(lambda: is_in(handle, JobState.SCHEDULED))
    first.terminate()  # a worker that lives finds the retry in the store too, perhaps before it is announced
    first.wait()
    await app.jobs.reschedule(handle.id, delay=0)
    await until(lambda: is_known(backend, f"{handle.id}-1"))
    fleet.start()
    assert await handle.result(WITHIN) == "ONCE"
    await until(lambda: f"{handle.id}-1:{FUNCTION}" in fleet.said)


@pytest.mark.real_time
@pytest.mark.sample  # the store has no part in it
async def test_flushed_redis_costs_time_only(fleet: Fleet, app: Holdfast, server: Valkey) -> None:
    fleet.close_gate("first")
    fleet.start(jobs=1)
    assert await (await app.enqueue(app.tasks.get("work").call("before"))).result(WITHIN) == "BEFORE"
    first = await app.enqueue(app.tasks.get("work").call("first"))
    await fleet.until_noted("begin first")
    others = [await app.enqueue(app.tasks.get("work").call(f"n{number}")) for number in range(10)]
    await until(lambda: server.ask("ZCARD", fleet.queue) in range(8, 12))  # a lane may have given one or two
    server.ask("FLUSHALL")
    fleet.open_gate("first")
    assert await first.result(WITHIN) == "FIRST"
    assert [await handle.result(WITHIN) for handle in others] == [f"N{number}" for number in range(10)]
    assert len(fleet.noted) == 24


@pytest.mark.real_time
@pytest.mark.sample  # the store has no part in it
async def test_restarted_redis_costs_time_only(fleet: Fleet, app: Holdfast, server: Valkey) -> None:
    fleet.start()
    assert await (await app.enqueue(app.tasks.get("work").call("before"))).result(WITHIN) == "BEFORE"
    server.kill()
    during = await app.enqueue(app.tasks.get("work").call("during"))
    server.start()
    assert await during.result(WITHIN) == "DURING"
    assert fleet.noted == ["begin before", "end before", "begin during", "end during"]


async def test_told_to_leave_lets_its_jobs_end(fleet: Fleet, app: Holdfast) -> None:
    fleet.close_gate("slow")
    worker = fleet.start()
    handle = await app.enqueue(app.tasks.get("work").call("slow"))
    await fleet.until_noted("begin slow")
    worker.send_signal(signal.SIGTERM)
    await until(lambda: "SIGTERM: " in fleet.said)
    fleet.open_gate("slow")
    assert await handle.result(WITHIN) == "SLOW"
    assert worker.wait(30) == 0
    assert fleet.noted == ["begin slow", "end slow"]


@pytest.mark.real_time
async def test_told_twice_gives_its_jobs_back(fleet: Fleet, app: Holdfast) -> None:
    fleet.close_gate("slow")
    worker = fleet.start()
    handle = await app.enqueue(app.tasks.get("work").call("slow"))
    await fleet.until_noted("begin slow")
    worker.send_signal(signal.SIGTERM)
    await until(lambda: "SIGTERM: " in fleet.said)
    assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    fleet.open_gate("slow")
    fleet.start()
    assert await handle.result(WITHIN) == "SLOW"
    assert fleet.noted == ["begin slow", "begin slow", "end slow"]
    assert (await app.jobs.get(handle.id)).crashes == 0


@pytest.mark.real_time
@pytest.mark.sample  # the store has no part in it
async def test_job_may_take_longer_than_arq_gives_a_call(fleet: Fleet, app: Holdfast, backend: ArqQueueBackend) -> None:
    fleet.close_gate("slow")
    fleet.start(timeout="1s")
    handle = await app.enqueue(app.tasks.get("work").call("slow"))
    await fleet.until_noted("begin slow")
    await gone(backend, f"{handle.id}-0")
    assert (await app.jobs.get(handle.id)).state is JobState.RUNNING
    fleet.open_gate("slow")
    assert await handle.result(WITHIN) == "SLOW"
    assert fleet.noted == ["begin slow", "end slow"]
    assert "failed" not in fleet.said


async def test_functions_of_the_deployment_run_beside(fleet: Fleet, app: Holdfast, backend: ArqQueueBackend) -> None:
    fleet.start()
    called = await backend.enqueue("add", {"a": 40, "b": 2})
    assert called is not None
    job = await app.enqueue(app.tasks.get("work").call("beside"))
    assert await job.result(WITHIN) == "BESIDE"
    await until(lambda: backend.get_job_result(called), "it has a result")
    assert await backend.get_job_result(called) == 42


@pytest.mark.real_time
@pytest.mark.sample  # the store has no part in it
async def test_call_of_a_dead_worker_does_not_pass_for_a_delivery(
    fleet: Fleet, backend: ArqQueueBackend, server: Valkey
) -> None:
    fleet.close_gate("slow")
    first = fleet.start()
    await backend.enqueue("linger", {"name": "slow"})
    await fleet.until_noted("begin slow")
    first.kill()
    first.wait()
    assert server.ask("ZCARD", fleet.queue) == 1  # it stays for as long as it might have run
    assert await backend.count_waiting(1) == 0
    await backend.enqueue("add", {"a": 40, "b": 2})
    assert await backend.count_waiting(1) == 1
