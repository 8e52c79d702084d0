"""Posting to receivers that nobody trusts: nothing local is reached, nothing hostile hurts (0 of 53 addresses)."""

import asyncio
import errno
import logging
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpcore2
import pytest

from holdfast.errors import ConfigError
from holdfast.escalation.posting import Posted, Poster
from holdfast.webhooks.address import Allowed, Lookup, Target, check_url, look_up, read_allowed
from tests.support import hostile_receiver as hostile
from tests.support.hostile_receiver import LOCAL_URLS, Recorder, Trap, serving, unguarded

HERE = read_allowed(["127.0.0.0/8"])
NOWHERE = Allowed()
SHORT_S = 0.5
PUBLIC = "1.1.1.1"  # never connected to: the tests that use it replace the socket


@pytest.fixture
async def trap() -> AsyncIterator[Trap]:
    async with Trap().listening() as trap:
        yield trap


def answering(*answers: str) -> Lookup:
    """A resolver with these answers for every name."""

    async def lookup(host: str, port: int) -> list[str]:
        return list(answers)

    return lookup


async def everything_is_local(host: str, port: int) -> Iterable[str]:
    """Read numbers as the C library does, and answer every name with this machine."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ["127.0.0.1", "::1"]
    return [str(place[0]) for *_, place in found]


async def posted(
    target: Target,
    body: bytes = b"{}",
    *,
    allowed: Allowed = HERE,
    lookup: Lookup = look_up,
    deadline_s: float = 10.0,
    context: ssl.SSLContext | None = None,
    headers: dict[str, str] | None = None,
) -> Posted:
    async with Poster(allowed, deadline_s=deadline_s, lookup=lookup, context=context) as poster:
        return await poster.post(target, headers or {}, body)


def local(port: int, path: str = "/") -> Target:
    return check_url(f"http://127.0.0.1:{port}{path}", HERE)


class Connected:
    """Takes the place of the network: remembers who would have been called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[str] = []
        monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", self._connect)

    async def _connect(self, host: str, port: int, *rest: Any) -> httpcore2.AsyncNetworkStream:
        self.addresses.append(host)
        message = "nobody there"
        raise httpcore2.ConnectError(message)


def test_the_list_of_local_addresses_is_long_enough() -> None:
    assert len(set(LOCAL_URLS)) >= 40


@pytest.mark.parametrize("url", LOCAL_URLS)
async def test_no_local_address_is_reached_even_if_it_was_registered(url: str, trap: Trap) -> None:
    target = unguarded(url.format(port=trap.port), trap.port)
    found = await posted(target, allowed=NOWHERE, lookup=everything_is_local)
    assert found.status is None
    assert found.error
    assert trap.hits == 0


@pytest.mark.parametrize(
    "answers",
    [("127.0.0.1",), ("::1",), (PUBLIC, "::1"), ("::1", PUBLIC), (PUBLIC, "::ffff:127.0.0.1"), ("fe80::1%lo",), ()],
)
async def test_a_name_with_any_local_address_is_not_reached(
    answers: tuple[str, ...], trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = Connected(monkeypatch)
    target = check_url(f"http://hooks.example.org:{trap.port}/?token=hidden", NOWHERE)
    found = await posted(target, allowed=NOWHERE, lookup=answering(*answers))
    assert found.error is not None
    assert found.error.startswith("webhook address: expected only public addresses for 'hooks.example.org'")
    assert "hidden" not in found.error
    assert connected.addresses == []
    assert trap.hits == 0


async def test_a_name_that_changes_is_called_at_the_address_that_was_checked(
    trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = Connected(monkeypatch)
    answers = [PUBLIC, "127.0.0.1"]

    async def rebinding(host: str, port: int) -> list[str]:
        return [answers.pop(0)]

    target = check_url(f"http://hooks.example.org:{trap.port}/", NOWHERE)
    async with Poster(NOWHERE, lookup=rebinding) as poster:
        first = await poster.post(target, {}, b"")
        second = await poster.post(target, {}, b"")
    assert connected.addresses == [PUBLIC]
    assert first.error == "could not connect: ConnectError"
    assert second.error is not None
    assert "expected only public addresses" in second.error
    assert trap.hits == 0


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    recorder = Recorder()
    async with serving(recorder) as port:
        target = check_url(f"http://hooks.lan:{port}/", read_allowed(["hooks.lan"]))
        found = await posted(target, allowed=read_allowed(["hooks.lan"]), lookup=answering("127.0.0.9", "127.0.0.1"))
    assert found.status == 200
    assert len(recorder.heads) == 1


async def test_an_allowed_address_gets_exactly_what_was_sent() -> None:
    recorder = Recorder(b"HTTP/1.1 202 Accepted\r\nretry-after: 7\r\ncontent-length: 6\r\n\r\nok\x00\x1b\xff!")
    body = bytes(range(256)) * 100
    async with serving(recorder) as port:
        sent = {"Webhook-Id": "m1", "Host": "evil.example.org", "Transfer-Encoding": "chunked"}
        found = await posted(local(port, "/in/ü?a=%20b&c=1"), body, headers=sent)
    assert (found.status, found.error, found.retry_after_s) == (202, None, 7.0)
    assert found.excerpt == "ok\\x00\\x1b\ufffd!"
    assert found.took_ms >= 0
    head = recorder.heads[0].lower()
    assert recorder.heads[0].startswith(b"POST /in/%C3%BC?a=%20b&c=1 HTTP/1.1\r\n")
    assert f"\r\nhost: 127.0.0.1:{port}\r\n".encode() in head
    assert head.count(b"\r\nhost:") == 1
    assert b"\r\nwebhook-id: m1\r\n" in head
    assert b"\r\naccept-encoding: identity\r\n" in head
    assert b"\r\ncontent-length: 25600\r\n" in head
    assert b"transfer-encoding" not in head
    assert recorder.bodies == [body]


async def test_a_name_keeps_its_host_header_and_is_asked_about_each_time() -> None:
    asked: list[str] = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    recorder = Recorder(b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n")
    async with serving(recorder) as port, Poster(HERE, lookup=lookup) as poster:
        target = check_url(f"http://Hooks.Example.org.:{port}/", HERE)
        for _ in range(2):
            assert (await poster.post(target, {}, b"x")).status == 200
    assert asked == ["hooks.example.org"] * 2
    assert len(recorder.heads) == 2  # each on a connection of its own
    for head in recorder.heads:
        assert f"\r\nhost: hooks.example.org:{port}\r\n".encode() in head.lower()
        assert b"cookie" not in head.lower()


async def test_tls_is_made_and_verified_for_the_name() -> None:
    trusting = ssl.create_default_context(cadata=hostile.CERTIFICATE)
    recorder = Recorder()
    async with serving(recorder, hostile.server_context()) as port:

        async def status_of(host: str, context: ssl.SSLContext | None) -> Posted:
            target = check_url(f"https://{host}:{port}/", HERE)
            return await posted(target, lookup=answering("127.0.0.1"), context=context)

        assert (await status_of("hooks.example.org", trusting)).status == 200
        wrong_name = await status_of("other.example.org", trusting)
        unknown = await status_of("hooks.example.org", None)
    for refused in (wrong_name, unknown):
        assert refused.status is None
        assert (refused.error or "").startswith("could not connect: TLS: ")
    assert "other.example.org" in (wrong_name.error or "")
    assert len(recorder.heads) == 1


async def test_the_environment_sets_no_proxy(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{trap.port}")
    async with serving(Recorder()) as port:
        assert (await posted(local(port))).status == 200
    assert trap.hits == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_not_a_way(status: int, trap: Trap) -> None:
    answer = f"HTTP/1.1 {status} Moved\r\nlocation: http://127.0.0.1:{trap.port}/\r\ncontent-length: 0\r\n\r\n"
    async with serving(Recorder(answer.encode())) as port:
        found = await posted(local(port))
    assert (found.status, found.error) == (status, None)
    assert trap.hits == 0


@pytest.mark.parametrize(
    "behaviour", [hostile.silent, hostile.dripping, hostile.dripping_body, hostile.always_continuing]
)
@pytest.mark.parametrize("body", [b"{}", b"x" * 20_000_000], ids=["small", "large"])
async def test_a_receiver_that_takes_its_time_gets_no_more_than_the_deadline(
    behaviour: hostile.Behaviour, body: bytes
) -> None:
    async with serving(behaviour) as port:
        found = await posted(local(port), body, deadline_s=SHORT_S)
    assert (found.status, found.error) == (None, "no complete answer within 0.5 s")


async def test_a_handshake_that_never_ends_meets_the_deadline_and_leaves_no_socket() -> None:
    async with serving(hostile.silent) as port:
        found = await posted(check_url(f"https://127.0.0.1:{port}/", HERE), deadline_s=SHORT_S)
    assert found.status is None
    assert found.error == "could not connect in time"


async def test_a_resolver_that_never_answers_meets_the_deadline() -> None:
    async def stuck(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    found = await posted(check_url("http://hooks.example.org/", HERE), lookup=stuck, deadline_s=0.05)
    assert found.error == "no complete answer within 0.05 s"


@pytest.mark.guards("webhook-answer-bytes")
async def test_an_endless_body_is_cut_and_the_connection_closed() -> None:
    endless = hostile.EndlessBody()
    async with serving(endless) as port:
        found = await posted(local(port))
        await asyncio.wait_for(endless.ended.wait(), 10)  # by the sender, while the server still runs
    assert (found.status, found.error) == (200, None)
    assert found.excerpt == "x" * 500


async def test_a_gzip_bomb_is_not_unpacked() -> None:
    async with serving(Recorder(hostile.gzip_bomb())) as port:
        found = await posted(local(port))
    assert (found.status, found.error) == (200, None)
    assert found.excerpt.startswith("\\x1f")
    assert len(found.excerpt) <= 500


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x-many: a\r\n" * 100_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        bytes(range(256)) * 1_000,
        b"",
    ],
    ids=["1 MB header", "many headers", "two lengths", "cut", "bad chunk", "bad status", "SSH", "garbage", "nothing"],
)
async def test_an_answer_that_is_not_http_is_an_error(answer: bytes) -> None:
    async with serving(hostile.saying(answer)) as port:
        found = await posted(local(port, "/?token=hidden"))
    assert found.status is None
    assert found.error in {
        "the answer is not HTTP/1.1, ended too soon or has headers that are too large",
        "the connection broke before the answer was complete",
    }


async def test_a_receiver_that_closes_at_once_is_an_error() -> None:
    async with serving(hostile.closing) as port:
        found = await posted(local(port))
    assert found.status is None
    assert found.error


async def test_nobody_there_is_an_error_without_the_address() -> None:
    async with serving(hostile.closing) as port:
        pass
    found = await posted(check_url(f"http://hooks.example.org:{port}/", HERE), lookup=answering("127.0.0.1"))
    assert found.error == f"could not connect: {os.strerror(errno.ECONNREFUSED)}"


async def test_headers_that_http_cannot_carry_are_an_error_that_does_not_show_them() -> None:
    async with serving(Recorder()) as port:
        for value in ("hidden\r\nx: y", "hidden\x00", "hidden\ud800"):
            found = await posted(local(port), headers={"authorization": value})
            assert found.status is None
            assert found.error
            assert "hidden" not in found.error


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_cancellation_is_raised_and_closes_the_connection(scheme: str) -> None:
    came, went = asyncio.Event(), asyncio.Event()

    async def waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)  # of the request, or of a handshake that will not go on
        came.set()
        await reader.read()
        went.set()

    async with serving(waiting) as port, Poster(HERE) as poster:
        target = check_url(f"{scheme}://127.0.0.1:{port}/", HERE)
        task = asyncio.create_task(poster.post(target, {}, b""))
        await came.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(went.wait(), 10)


async def test_paths_and_queries_stay_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(Recorder()) as port:
        target = local(port, "/hidden-path?token=hidden-query")
        assert (await posted(target)).status == 200
    assert "hidden" not in caplog.text
    assert "hidden" not in repr(target)


def test_without_httpx2_the_way_to_install_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "holdfast.webhooks.pinned", raising=False)
    monkeypatch.delattr("holdfast.webhooks.pinned", raising=False)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ConfigError, match=r'pip install "holdfast-jobs\[http\]"'):
        Poster(NOWHERE)
