"""One protocol, several queues: each of them keeps the same promises."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from arq.connections import RedisSettings
from arq.worker import Worker
from safir.arq import MockArqQueue, RedisArqQueue

from holdfast import ArgumentError, ConfigError, Holdfast, InvalidValue, UnknownKind
from holdfast.backends.arq import ArqQueueBackend, arq_pool, decode, encode
from holdfast.backends.backend import QueueBackend
from holdfast.backends.inline import InlineQueueBackend
from holdfast.testing import in_memory
from tests.support.valkey import Valkey

# As the first seed writes it.
SEED = '''
from typing import Protocol


class QueueBackend(Protocol):
    """Protocol for queue backend implementations."""

    async def enqueue(
        self,
        job_type: str,
        payload: dict,
        *,
        queue_name: str = "default",
    ) -> str | None: ...

    async def get_job_metadata(
        self, backend_job_id: str
    ) -> dict | None: ...

    async def get_job_result(
        self, backend_job_id: str
    ) -> object | None: ...
'''
VERBS = ("enqueue", "get_job_metadata", "get_job_result")
UNKNOWN = ("htcx-2s16-z48b-09", "0" * 32, "", "no id at all", "x@other")


@dataclass
class Backend:
    """A backend, and what lets its calls run."""

    queue: QueueBackend
    run: Callable[[], Awaitable[Any]]


async def double(ctx: dict[str, Any], payload: dict[str, Any]) -> int:
    return 2 * int(payload["number"])


async def broken(ctx: dict[str, Any], payload: dict[str, Any]) -> int:
    message = f"number {payload['number']}"
    raise ValueError(message)


def made_app() -> Holdfast:
    app = Holdfast("sqlite://", max_attempts=1)

    @app.task(kind="double")
    async def doubled(number: int) -> int:
        return 2 * number

    @app.task(kind="broken")
    async def breaks(number: int) -> int:
        raise ValueError(number)

    @app.task(queue="fixed")
    async def fixed() -> None: ...

    @app.task(queue_override=True)
    async def free() -> None: ...

    return app


@pytest.fixture(params=["arq", "safir", "inline", "inline-app", "holdfast"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    if request.param in ("arq", "safir"):
        server: Valkey = request.getfixturevalue("server")
        pool = arq_pool(server.url)
        queue = ArqQueueBackend(pool if request.param == "arq" else RedisArqQueue(pool))

        async def burst() -> None:
            worker = Worker([double, broken], redis_pool=arq_pool(server.url), burst=True, handle_signals=False,
                            job_serializer=encode, job_deserializer=decode)  # fmt: skip
            await worker.async_run()
            await worker.pool.aclose(close_connection_pool=True)  # its own way to close is deprecated by redis

        yield Backend(queue, burst)
        await queue.close()
    elif request.param == "inline":
        inline = InlineQueueBackend({"double": double, "broken": broken})
        yield Backend(inline, inline.run_pending)
    else:
        app = made_app()
        async with in_memory(app):
            inline = InlineQueueBackend(app=app)
            yield Backend(inline if request.param == "inline-app" else app.queue_backend, inline.run_pending)


# ---- the protocol --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_protocol_is_the_one_of_the_seed(verb: str) -> None:
    seed: dict[str, Any] = {}
    exec(SEED, seed)  # noqa: S102 - it is the text above
    expected = inspect.signature(getattr(seed["QueueBackend"], verb))
    assert inspect.signature(getattr(QueueBackend, verb)) == expected


async def test_speaks_the_protocol(backend: Backend) -> None:
    assert isinstance(backend.queue, QueueBackend)
    for verb in VERBS:
        written = inspect.signature(getattr(QueueBackend, verb)).parameters.values()
        spoken = inspect.signature(getattr(type(backend.queue), verb)).parameters.values()
        assert [(p.name, p.kind, p.default) for p in spoken] == [(p.name, p.kind, p.default) for p in written]


async def test_result_is_there_after_the_run_and_not_before(backend: Backend) -> None:
    made = await backend.queue.enqueue("double", {"number": 21})
    assert made is not None
    before = await backend.queue.get_job_metadata(made)
    assert before is not None
    assert before["status"] == "queued"
    assert await backend.queue.get_job_result(made) is None
    await backend.run()
    after = await backend.queue.get_job_metadata(made)
    assert after is not None
    assert after["status"] in ("complete", "completed")
    assert await backend.queue.get_job_result(made) == 42


async def test_failed_call_has_no_result_and_stops_no_other(backend: Backend) -> None:
    failed = await backend.queue.enqueue("broken", {"number": 1})
    good = await backend.queue.enqueue("double", {"number": 1})
    assert failed is not None
    assert good is not None
    await backend.run()
    assert await backend.queue.get_job_result(failed) is None
    assert await backend.queue.get_job_metadata(failed) is not None
    assert await backend.queue.get_job_result(good) == 2


@pytest.mark.parametrize("unknown", UNKNOWN)
async def test_unknown_id_gives_none(backend: Backend, unknown: str) -> None:
    assert await backend.queue.get_job_metadata(unknown) is None
    assert await backend.queue.get_job_result(unknown) is None


# ---- arq -----------------------------------------------------------------------------------------------------------


async def test_other_queue_is_found_by_the_id_alone(server: Valkey) -> None:
    backend = ArqQueueBackend(arq_pool(server.url))
    made = await backend.enqueue("double", {"number": 1}, queue_name="arq:other")
    assert made is not None
    assert server.ask("ZCARD", "arq:other") == 1
    await backend.close()
    elsewhere = ArqQueueBackend(arq_pool(server.url))
    found = await elsewhere.get_job_metadata(made)
    assert found is not None
    assert (found["status"], found["queue"], found["kwargs"]) == ("queued", "arq:other", {"payload": {"number": 1}})
    await elsewhere.close()


async def test_queue_of_safir_that_pickles_is_refused(server: Valkey) -> None:
    queue = await RedisArqQueue.initialize(RedisSettings.from_dsn(server.url))
    with pytest.raises(ConfigError, match="always pickles"):
        ArqQueueBackend(queue)
    with pytest.raises(ConfigError, match="got a ArqRedis that does not"):
        ArqQueueBackend(queue._pool)
    await queue._pool.aclose(close_connection_pool=True)


async def test_mock_queue_of_safir_is_refused_with_what_to_use() -> None:
    with pytest.raises(ConfigError, match="use InlineQueueBackend"):
        ArqQueueBackend(MockArqQueue())


# ---- in-process and in the store -----------------------------------------------------------------------------------


async def test_inline_runs_what_a_call_enqueues() -> None:
    seen = []

    async def first(ctx: dict[str, Any], payload: dict[str, Any]) -> None:
        await inline.enqueue("second", {"from": ctx["job_id"]})

    async def second(ctx: dict[str, Any], payload: dict[str, Any]) -> None:
        seen.append(payload["from"])

    inline = InlineQueueBackend({"first": first, "second": second})
    made = await inline.enqueue("first", {})
    await inline.run_pending()
    assert seen == [made]


async def test_inline_says_what_it_expects() -> None:
    with pytest.raises(ConfigError, match="neither"):
        InlineQueueBackend()
    with pytest.raises(ConfigError, match="both"):
        InlineQueueBackend({}, app=made_app())
    with pytest.raises(UnknownKind, match="known are double"):
        await InlineQueueBackend({"double": double}).enqueue("treble", {})


async def test_jobs_of_the_app_keep_its_rules() -> None:
    app = made_app()
    async with in_memory(app):
        queue = app.queue_backend
        made = await queue.enqueue("double", {"number": 1})
        assert (await app.jobs.get(made)).queue == "default"
        with pytest.raises(InvalidValue, match="belong to 'fixed'"):
            await queue.enqueue("fixed", {}, queue_name="mail")
        assert (await app.jobs.get(await queue.enqueue("free", {}, queue_name="mail"))).queue == "mail"
        assert (await app.jobs.get(await queue.enqueue("fixed", {}))).queue == "fixed"
        with pytest.raises(UnknownKind):
            await queue.enqueue("treble", {})
        with pytest.raises(ArgumentError):
            await queue.enqueue("double", {"numbr": 1})
        with pytest.raises(ArgumentError, match="by name"):
            await queue.enqueue("double", [1])  # type: ignore[arg-type] # wrong on purpose
        found = await queue.get_job_metadata(made)
        assert found is not None
        assert (found["id"], found["kind"], found["payload"]) == (made, "double", {"number": 1})
