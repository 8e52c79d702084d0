"""The place where metrics are read: what it answers, to whom, and what it refuses."""

import asyncio
import logging
import re

import pytest

from holdfast import ConfigError, InvalidValue
from holdfast.telemetry import endpoint
from holdfast.telemetry.endpoint import read_address, serving


async def asked(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def port_in(caplog: pytest.LogCaptureFixture) -> int:
    found = re.search(r"http://127.0.0.1:(\d+)/metrics", caplog.text)
    assert found is not None
    return int(found[1])


async def numbers() -> str:
    return "up 1\n"


async def broken() -> str:
    message = "no numbers"
    raise ValueError(message)


async def test_it_answers_what_prometheus_and_probes_ask(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving("127.0.0.1:0", numbers):
        port = port_in(caplog)
        answer = await asked(port, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
        assert answer.endswith(b"\r\n\r\nup 1\n")
        head = await asked(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert b"Content-Length: 5\r\n" in head
        assert head.endswith(b"\r\n\r\n")
        assert b"\r\n\r\nok\n" in await asked(port, b"GET /healthz HTTP/1.1\r\n\r\n")
        assert (await asked(port, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404")
        assert (await asked(port, b"POST /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405")
        assert (await asked(port, b"\x16\x03\x01nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400")
        assert (await asked(port, b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400")
    with pytest.raises(OSError, match=r"refused|failed"):
        await asked(port, b"GET /healthz HTTP/1.1\r\n\r\n")


async def test_numbers_that_cannot_be_written_are_no_silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving("127.0.0.1:0", broken):
        port = port_in(caplog)
        assert (await asked(port, b"GET /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503")
        assert (await asked(port, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_a_caller_that_never_ends_its_request_is_cut_off(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(endpoint, "_PATIENCE_S", 0.01)
    async with serving("127.0.0.1:0", numbers):
        assert await asked(port_in(caplog), b"GET /metrics HTTP/1.1\r\n") == b""


async def test_an_address_in_use_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving("127.0.0.1:0", numbers):
        with pytest.raises(ConfigError, match=r"--metrics: the address 127.0.0.1:\d+ cannot be used: .*; take another"):
            async with serving(f"127.0.0.1:{port_in(caplog)}", numbers):
                pytest.fail("two programs cannot have one address")


@pytest.mark.parametrize(
    "given, expected",
    [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::1]:80", ("::1", 80)), ("localhost:0", ("localhost", 0))],
)
def test_addresses(given: str, expected: tuple[str, int]) -> None:
    assert read_address(given) == expected


@pytest.mark.parametrize("given", ["9464", ":9464", "host", "host:", "host:99999", "a b:80", "http://h:80", "::1:80"])
def test_addresses_that_are_none(given: str) -> None:
    with pytest.raises(InvalidValue, match="--metrics: expected HOST:PORT, such as"):
        read_address(given)
