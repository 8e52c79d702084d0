"""What an app and an Arq worker are told about each other is checked before anything runs."""

import asyncio
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from arq.worker import Worker, get_kwargs

from holdfast import ConfigError, Holdfast, InvalidValue
from holdfast.arq import arq_worker_settings
from holdfast.arq_delivery import ArqDelivery
from holdfast.backends.arq import decode, encode
from holdfast.worker.orders import settings_of, wire_of
from tests.support.valkey import Valkey

URL = "redis://user:s%40cret@host:6380/2"


def test_settings_travel_to_the_supervisor() -> None:
    app = Holdfast("sqlite://", delivery=ArqDelivery(URL, "arq:mine"))
    assert settings_of(wire_of(app.parts)).delivery == ArqDelivery(URL, "arq:mine")


def test_password_is_shown_nowhere() -> None:
    delivery = ArqDelivery(URL)
    for text in (repr(delivery), str(delivery)):
        assert "cret" not in text


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (("http://host",), "redis://host"),
        (("redis://host/x",), "database number"),
        (("redis://host?ssl_cert_reqs=none",), "for Arq reads none"),
        (("redis://host", ""), "queue"),
    ],
)
def test_wrong_delivery_is_refused(arguments: tuple[str, ...], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        ArqDelivery(*arguments)


def made(**options: Any) -> dict[str, Any]:
    app = Holdfast("sqlite://", delivery=ArqDelivery(URL, "arq:mine"))
    found: dict[str, Any] = get_kwargs(arq_worker_settings(app, **options))
    return found


async def test_worker_settings_are_those_of_the_delivery() -> None:
    settings = made(max_jobs=7, job_timeout="1m", poll_delay=0.2)
    assert set(settings) <= set(inspect.signature(Worker).parameters)
    worker = Worker(**settings)
    assert (worker.queue_name, worker.max_jobs, worker.poll_delay_s, worker.job_timeout_s) == ("arq:mine", 7, 0.2, 60)
    assert (worker.job_serializer, worker.job_deserializer) == (encode, decode)
    assert worker.functions["holdfast_run"].keep_result_s == 0
    assert worker.redis_settings is not None
    assert (worker.redis_settings.host, worker.redis_settings.port) == ("host", 6380)
    assert (worker.redis_settings.database, worker.redis_settings.password) == (2, "s@cret")


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"job_serializer": print}, "Holdfast sets it"),
        ({"queue_name": "other"}, "Holdfast sets it"),
        ({"job_completion_wait": 3}, "Holdfast sets it"),
        ({"max_job": 3}, "no such option"),
    ],
)
def test_option_that_cannot_be_set_is_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        made(**options)


def test_wrong_number_of_jobs_is_refused() -> None:
    with pytest.raises(InvalidValue, match="max_jobs"):
        made(max_jobs=0)


def test_app_whose_ids_go_another_way_is_refused() -> None:
    with pytest.raises(ConfigError, match="delivery=ArqDelivery"):
        arq_worker_settings(Holdfast("sqlite://"))


@pytest.mark.parametrize("payload", [{}, {"job": 3}, {"job": "x"}, None])
async def test_call_without_a_job_is_refused(payload: Any) -> None:
    run = made()["functions"][0].coroutine
    with pytest.raises(InvalidValue, match="expected"):
        await run({}, payload)


def test_what_json_has_no_form_for_is_refused_and_errors_become_text() -> None:
    assert decode(encode({"r": ValueError("no")})) == {"r": "ValueError: no"}
    with pytest.raises(NotImplementedError, match="got object"):
        encode({"r": object()})


@pytest.mark.filterwarnings("ignore:Call to deprecated close")  # by arq
async def test_arq_does_not_go_on_without_the_worker_of_holdfast(server: Valkey) -> None:
    told = []

    @asynccontextmanager
    async def lifespan(app: Holdfast) -> AsyncIterator[None]:
        message = "no database"
        raise RuntimeError(message)
        yield

    async def note(ctx: dict[str, Any]) -> None:
        told.append("left")

    app = Holdfast("sqlite://", delivery=ArqDelivery(server.url), lifespan=lifespan)
    settings: dict[str, Any] = get_kwargs(arq_worker_settings(app, on_shutdown=note, handle_signals=False))
    worker = Worker(**settings)
    with pytest.raises(asyncio.CancelledError):
        await worker.async_run()
    with pytest.raises(RuntimeError, match="no database"):
        await worker.close()
    assert told == ["left"]
    await worker.pool.aclose(close_connection_pool=True)


def test_missing_package_is_named_with_what_to_do() -> None:
    program = """
import asyncio, sys
sys.modules["arq"] = None
from holdfast import ArqDelivery, Holdfast
async def main():
    async with Holdfast("sqlite://", delivery=ArqDelivery("redis://localhost")): pass
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)  # noqa: PLW1510 - it fails
    assert done.stderr.splitlines()[-1].endswith('which is not installed; run pip install "holdfast-jobs[arq]"')
