"""Answers of receivers of webhooks, by hypothesis: whatever comes back is told by a status or an error, and soon."""

import asyncio
import time

import hypothesis
from hypothesis import strategies as st

from holdfast.escalation.posting import Poster
from holdfast.webhooks.address import check_url, read_allowed
from tests.support.hostile_receiver import serving
from tests.support.sizes import size

_MOST_CPU_S = 1.0
_PARTS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 503 \r\n",
        b"HTTP/9.9 999 ?\r\n",
        b"content-length: 5\r\n",
        b"content-length: -1\r\n",
        b"transfer-encoding: chunked\r\n",
        b"retry-after: 17\r\n",
        b"retry-after: " + b"9" * 5_000 + b"\r\n",
        b"content-encoding: gzip\r\n",
        b"x: " + b"a" * 60_000 + b"\r\n",
        b"x: y\r\n" * 2_000,
        b"\r\n",
        b"5\r\nhello\r\n",
        b"ffffffffffffffff\r\n",
        b"0\r\n\r\n",
        b"\xff\x00\r\n",
        b"z" * 200_000,
    ]
)
ANSWERS = st.lists(_PARTS | st.binary(max_size=20), max_size=10).map(b"".join)


def test_any_answer_is_told_by_a_status_or_an_error() -> None:
    now = {"answer": b""}

    async def behaviour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(now["answer"])
        writer.close()

    async def post(port: int, poster: Poster) -> None:
        target = check_url(f"http://127.0.0.1:{port}/", read_allowed(["127.0.0.1"]))
        began = time.process_time()
        posted = await poster.post(target, {}, b"{}")
        assert time.process_time() - began < _MOST_CPU_S
        assert (posted.status is None) != (posted.error is None)
        assert posted.retry_after_s is None or 0 <= posted.retry_after_s <= 86_400
        assert len(posted.excerpt) <= 500

    with asyncio.Runner() as runner:
        served = serving(behaviour)
        port = runner.run(served.__aenter__())
        poster = Poster(read_allowed(["127.0.0.1"]))

        @hypothesis.settings(max_examples=size(60, 3_000), deadline=None, database=None)
        @hypothesis.given(ANSWERS)
        def is_told(answer: bytes) -> None:
            now["answer"] = answer
            runner.run(post(port, poster))

        try:
            is_told()
        finally:
            runner.run(poster.close())
            runner.run(served.__aexit__(None, None, None))
