"""The way to one Redis server: every call has a deadline, and what fails is told in one line, not in hundreds."""

import asyncio
import hashlib
import importlib
import logging
import math
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from holdfast.delivery.delivery import Ready
from holdfast.delivery.redis_breaker import Breaker
from holdfast.errors import ConfigError
from holdfast.shards import RedisDelivery, Shard, masked

_logger = logging.getLogger("holdfast")

T = TypeVar("T")
Lane = tuple[str, int]

ANSWER_S = 2.0
BLOCK_S = 1.0
_FAILED_BATCHES = 3
_PUSH_WAITS_S = (1.0, 30.0)
_POP_WAITS_S = (0.2, 5.0)
_LINE_EVERY_S = 2.0
_FAREWELL_S = 0.5
_BELL_MS = 5_000
_ADDED_AT_ONCE = 1_000
_LARGEST_ID = 2**63 - 1
_LONGEST_MEMBER = 19

# Pops the lanes in their order, and of no queue more than it has room. An error of one lane, whose key may hold
# something else, must not lose what the lanes before it gave.
_TAKE = """
local left, rooms, found = tonumber(ARGV[1]), {}, {}
for place, key in ipairs(KEYS) do
  local queue = tonumber(ARGV[1 + place])
  local room = rooms[queue] or tonumber(ARGV[1 + #KEYS + queue])
  local wanted = math.min(left, room)
  if wanted > 0 then
    local popped = redis.pcall('ZPOPMIN', key, wanted)
    if not popped.err then
      for at = 1, #popped, 2 do
        found[#found + 1] = place
        found[#found + 1] = popped[at]
        found[#found + 1] = popped[at + 1]
      end
      left = left - #popped / 2
      room = room - #popped / 2
    end
  end
  rooms[queue] = room
end
return found
"""
_DIGEST = hashlib.sha1(_TAKE.encode(), usedforsecurity=False).hexdigest()


class Lost(Exception):
    """A server gave no answer, or a refusal."""


class Link:
    """One shard's server, its two breakers and what they said."""

    def __init__(self, shard: Shard, settings: RedisDelivery) -> None:
        self.shard = shard
        self.pushes = Breaker(_FAILED_BATCHES, *_PUSH_WAITS_S)
        self.pops = Breaker(1, *_POP_WAITS_S)
        self._key = settings.key
        self._quick = open_client("redis.asyncio", shard.url, ANSWER_S)
        self._patient = open_client("redis.asyncio", shard.url, BLOCK_S + ANSWER_S)
        self._no_script = load("redis.exceptions").NoScriptError
        self._has_answered = False
        self._said_lost = False
        self._next_line_at = 0.0

    @property
    def is_live(self) -> bool:
        """Whether ids came from it, or would have, when it was asked last."""
        return self._has_answered and not self.pops.is_open

    def lanes(self, queues: Iterable[str]) -> list[Lane]:
        """Every lane of these queues that lies here, the most urgent first."""
        named = list(queues)
        return [(queue, priority) for priority in self.shard.band for queue in named]

    async def take(self, rooms: Mapping[str, int], wanted: int) -> list[Ready]:
        """Pop at most so many ids, and of each queue at most as many as it has room; it does not wait for any."""
        return await self._read(self._taken(rooms, wanted), ANSWER_S)

    async def wait(self, lanes: Sequence[Lane], bell: str) -> list[Ready]:
        """Pop one id as soon as there is one; nothing after a second, or when the bell was rung."""
        return await self._read(self._waited(lanes, bell), BLOCK_S + ANSWER_S)

    async def ring(self, bell: str) -> None:
        """Let whoever waits with this bell come back at once."""
        async with self._quick.pipeline(transaction=False) as pipe:
            pipe.execute_command("ZADD", bell, 0, "bell")
            pipe.execute_command("PEXPIRE", bell, _BELL_MS)
            await _answered(pipe.execute(), ANSWER_S)

    async def add(self, jobs: Sequence[Ready]) -> list[Ready]:
        """Push ids in one pipeline, and give those back that were refused."""
        lanes: dict[str, list[Ready]] = {}
        for job in jobs:
            lanes.setdefault(self._key(job.queue, job.priority), []).append(job)
        parts = [
            (key, members[start : start + _ADDED_AT_ONCE])
            for key, members in lanes.items()
            for start in range(0, len(members), _ADDED_AT_ONCE)
        ]
        async with self._quick.pipeline(transaction=False) as pipe:
            for key, members in parts:
                pipe.execute_command("ZADD", key, "NX", *(part for job in members for part in (job.due_ms, job.id)))
            answers = await _answered(pipe.execute(raise_on_error=False), ANSWER_S)
        refused = [(answer, members) for answer, (_, members) in zip(answers, parts, strict=True) if _is_error(answer)]
        if len(refused) == len(parts) and refused:
            raise Lost(_told(refused[0][0]))
        return [job for _, members in refused for job in members]

    async def lengths(self, lanes: Sequence[Lane]) -> dict[Lane, int]:
        """How many ids lie in each lane."""
        return await self._read(self._counted(lanes), ANSWER_S)

    async def missing(self, jobs: Sequence[Ready]) -> list[Ready] | None:
        """Find the jobs whose ids do not lie in their lanes; None where the server does not let us look for one id."""
        return await self._read(self._sought(jobs), ANSWER_S)

    async def revive(self) -> None:
        """Ask a server that was lost whether it is back, unless it is too early for that."""
        if self.pops.is_open and self.pops.allows():
            await self._read(self._quick.execute_command("PING"), ANSWER_S)

    def tell(self, error: Exception | None = None) -> None:
        """Say once that the server was lost, and once that it is back."""
        is_lost = self.pops.is_open or self.pushes.is_open
        now = time.monotonic()
        if is_lost == self._said_lost or now < self._next_line_at:
            return
        self._said_lost, self._next_line_at = is_lost, now + _LINE_EVERY_S
        place = f"{self.shard.name} ({masked(self.shard.url)})"
        if is_lost:
            _logger.warning("Redis shard %s is lost, and jobs are found in the store meanwhile: %s", place, error)
        else:
            _logger.info("Redis shard %s is back", place)

    async def close(self) -> None:
        """Cut every connection."""
        for client in (self._quick, self._patient):
            try:
                await _answered(client.aclose(), _FAREWELL_S)
            except Lost as error:
                _logger.debug("a connection to Redis was not closed: %s", error)

    async def _taken(self, rooms: Mapping[str, int], wanted: int) -> list[Ready]:
        lanes = self.lanes(rooms)
        places = {queue: place for place, queue in enumerate(rooms, 1)}
        keys = [self._key(*lane) for lane in lanes]
        found = await self._run(keys, [wanted, *(places[queue] for queue, _ in lanes), *rooms.values()])
        popped = zip(found[::3], found[1::3], found[2::3], strict=True)
        return _readable((lanes[place - 1], member, score) for place, member, score in popped)

    async def _waited(self, lanes: Sequence[Lane], bell: str) -> list[Ready]:
        keys = {self._key(*lane): lane for lane in lanes}
        found = await self._patient.execute_command("BZPOPMIN", *keys, bell, int(BLOCK_S))
        if not found:
            return []
        key, member, score = found
        lane = keys.get(key.decode() if isinstance(key, bytes) else key)
        return [] if lane is None else _readable([(lane, member, score)])

    async def _counted(self, lanes: Sequence[Lane]) -> dict[Lane, int]:
        async with self._quick.pipeline(transaction=False) as pipe:
            for lane in lanes:
                pipe.execute_command("ZCARD", self._key(*lane))
            answers = await pipe.execute(raise_on_error=False)
        return {lane: int(answer) for lane, answer in zip(lanes, answers, strict=True) if not _is_error(answer)}

    async def _sought(self, jobs: Sequence[Ready]) -> list[Ready] | None:
        async with self._quick.pipeline(transaction=False) as pipe:
            for job in jobs:
                pipe.execute_command("ZSCORE", self._key(job.queue, job.priority), job.id)
            answers = await pipe.execute(raise_on_error=False)
        if answers and all(map(_is_error, answers)):  # its rights may be those that earlier releases needed
            return None
        return [job for job, answer in zip(jobs, answers, strict=True) if answer is None]

    async def _run(self, keys: Sequence[str], arguments: Sequence[object]) -> Any:
        """Run the script by its digest; a server that restarted or was told to forget it is sent the text."""
        try:
            return await self._quick.execute_command("EVALSHA", _DIGEST, len(keys), *keys, *arguments)
        except self._no_script:
            return await self._quick.execute_command("EVAL", _TAKE, len(keys), *keys, *arguments)

    async def _read(self, answer: Awaitable[T], deadline_s: float) -> T:
        """Wait for an answer that makes sense, and keep in mind whether one came."""
        try:
            given = await _answered(answer, deadline_s)
        except Lost as error:
            self.pops.failed()
            self.tell(error)
            raise
        self._has_answered = True
        self.pops.succeeded()
        self.tell()
        return given


def load(module: str) -> Any:
    """Import a part of the client library, which is an extra."""
    try:
        return importlib.import_module(module)
    except ImportError:
        message = (
            'delivery by Redis needs the package redis, which is not installed; run pip install "holdfast-jobs[redis]"'
        )
        raise ConfigError(message) from None


def open_client(module: str, url: str, answer_s: float) -> Any:
    """Make a client that fails within its time and tries nothing again by itself; it does not connect yet."""
    opened = load(module).Redis.from_url
    no_retry = load(f"{module}.retry").Retry(load("redis.backoff").NoBackoff(), 0)
    times = {"socket_timeout": answer_s, "socket_connect_timeout": ANSWER_S}
    try:
        client = opened(url, protocol=2, retry=no_retry, encoding_errors="replace", **times)
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # an unknown option would come to light at the first call only
    except Exception as error:  # noqa: BLE001 - by the option and the version of the library it is one or another
        # The text of the error may quote a part of the URL.
        message = f"Redis URL: expected options that redis-py knows, got {masked(url)!r} ({type(error).__name__})"
        message += "; check what stands behind the question mark"
        raise ConfigError(message) from None
    return client


async def _answered(answer: Awaitable[T], deadline_s: float) -> T:
    try:
        async with asyncio.timeout(deadline_s):
            return await answer
    except Exception as error:
        # Whatever it is (the library has errors of its own, of sockets and of parsing), a hint may be lost by it.
        raise Lost(_told(error)) from error


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _is_error(answer: object) -> bool:
    return isinstance(answer, Exception)


def _readable(found: Iterable[tuple[Lane, bytes | str, bytes | str | float]]) -> list[Ready]:
    """Read popped members; what is no id was not written by Holdfast, and is gone now."""
    jobs = []
    for (queue, priority), member, score in found:
        text = member.decode("ascii", "replace") if isinstance(member, bytes) else member
        if text.isascii() and text.isdigit() and len(text) <= _LONGEST_MEMBER and int(text) <= _LARGEST_ID:
            due = float(score)
            jobs.append(Ready(int(text), queue, priority, int(due) if math.isfinite(due) else 0))
    return jobs
