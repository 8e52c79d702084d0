"""Arq as a queue backend: on a pool of arq itself, or on Safir's queue around such a pool.

What goes over the wire is JSON. Arq's own default is pickle, and whoever can write to Redis could then run any code in
every worker; a pool that pickles is refused.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.arq_delivery import DEFAULT_QUEUE
from holdfast.backends.backend import DEFAULT
from holdfast.errors import ConfigError
from holdfast.shards import masked

try:
    from arq.connections import ArqRedis
    from arq.constants import in_progress_key_prefix, job_key_prefix
    from arq.jobs import Job, JobStatus, serialize_job
    from redis.asyncio import ConnectionPool
except ImportError:
    _MISSING = 'delivery by Arq: expected the package arq, which is not installed; run pip install "holdfast-jobs[arq]"'
    raise ConfigError(_MISSING) from None

_AT_ONCE = 500
_MOST_RUNNING = 1_000  # they stand first, by the time they were due
_PROBE = {"f": "probe", "k": {"payload": {"text": "ä", "number": 1}}}


def encode(data: Mapping[str, Any]) -> bytes:
    """Write what arq sends as JSON; an exception, which arq keeps as a result, becomes text."""
    return msgspec.json.encode(data, enc_hook=_told)


def decode(data: bytes) -> dict[str, Any]:
    """Read what arq sent."""
    read: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
    return read


def arq_pool(url: str, queue: str = DEFAULT_QUEUE, **options: Any) -> ArqRedis:
    """Make an arq pool that writes JSON, for `ArqQueueBackend` or Safir's `RedisArqQueue`; it connects when used."""
    try:
        connections = ConnectionPool.from_url(url, **options)
    except ValueError as error:
        # The text of the error may quote a part of the URL.
        message = f"Redis URL: expected a form like redis://host:6379/0, got {masked(url)!r} ({type(error).__name__})"
        raise ConfigError(message) from None
    return json_pool(connections, queue)


def json_pool(connections: Any, queue: str) -> ArqRedis:
    """Make an arq pool that writes JSON on connections that somebody else made."""
    return ArqRedis(connections, encode, decode, queue)


class ArqQueueBackend:
    """Enqueues calls of Arq functions `async def f(ctx, payload)`; `queue` is a pool of arq, or Safir's queue.

    Arq looks for a job in one queue only, so an id tells its queue unless that is the default one: `{uuid}@{queue}`.
    """

    def __init__(self, queue: Any, default_queue: str | None = None) -> None:
        self._safir: Any = None if isinstance(queue, ArqRedis) else queue
        self.pool = queue if isinstance(queue, ArqRedis) else _pool_of(queue)
        self.default_queue = default_queue or str(queue.default_queue_name)
        _require_json(self.pool, queue)

    async def enqueue(self, job_type: str, payload: dict[str, Any], *, queue_name: str = DEFAULT) -> str | None:
        """Let Arq call a function; None only where an id that was made just now is taken."""
        queue = self.default_queue if queue_name == DEFAULT else queue_name
        job_id = uuid.uuid4().hex if queue == self.default_queue else f"{uuid.uuid4().hex}@{queue}"
        if self._safir is not None:
            return await self._enqueue_by_safir(job_type, payload, job_id, queue)
        job = await self.pool.enqueue_job(job_type, _job_id=job_id, _queue_name=queue, payload=payload)
        return None if job is None else job.job_id

    async def enqueue_many(self, job_type: str, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """Let Arq call a function for each payload by its id, in few round trips; ids that wait or run collapse.

        It writes what `enqueue_job` of arq writes, which takes three round trips for each.
        """
        queue, expires_ms = self.default_queue, self.pool.expires_extra_ms
        now = round(time.time() * 1_000)
        for ids in _chunks(list(payloads)):
            async with self.pool.pipeline(transaction=True) as pipe:
                for job_id in ids:
                    call = serialize_job(
                        job_type, (), {"payload": payloads[job_id]}, None, now, serializer=self.pool.job_serializer
                    )
                    pipe.set(job_key_prefix + job_id, call, px=expires_ms, nx=True)
                    # Also for an id whose call is there: if it was lost from the queue, nobody else would put it back.
                    pipe.zadd(queue, {job_id: now}, nx=True)
                await pipe.execute()

    async def count_waiting(self, most: int) -> int:
        """Count the calls in the default queue that nobody works on, exactly while that are fewer than `most`.

        A call stays in the queue while it runs, and for as long as it might have run when its worker died.
        """
        length = int(await self.pool.zcard(self.default_queue))
        if length < most:
            return length
        first = await self.pool.zrange(self.default_queue, 0, _MOST_RUNNING - 1)
        keys = [in_progress_key_prefix + job_id.decode() for job_id in first]
        return length - (int(await self.pool.exists(*keys)) if keys else 0)

    async def get_job_metadata(self, backend_job_id: str) -> dict[str, Any] | None:
        """Show what Arq knows of a call."""
        job = self._job(backend_job_id)
        info, status = await job.info(), await job.status()
        if info is None or status is JobStatus.not_found:
            return None
        return vars(info) | {"job_id": backend_job_id, "queue": job._queue_name, "status": status.value}  # noqa: SLF001 - a job of arq does not tell its queue otherwise

    async def get_job_result(self, backend_job_id: str) -> object | None:
        """Give what a function returned; None while it has not, when it failed, and when Arq has forgotten it."""
        found = await self._job(backend_job_id).result_info()
        return found.result if found is not None and found.success else None

    async def close(self) -> None:
        """Cut every connection."""
        await self.pool.aclose(close_connection_pool=True)  # its connections may have come from elsewhere

    def _job(self, job_id: str) -> Job:
        """Look at a job through our own deserialiser: a job that Safir's queue makes would unpickle it."""
        _, _, queue = job_id.partition("@")
        return Job(job_id, self.pool, queue or self.default_queue, self.pool.job_deserializer)

    async def _enqueue_by_safir(self, job_type: str, payload: dict[str, Any], job_id: str, queue: str) -> str | None:
        from safir.arq import JobNotFound, JobNotQueued  # noqa: PLC0415 - only who uses Safir has it

        try:
            await self._safir.enqueue(job_type, _job_id=job_id, _queue_name=queue, payload=payload)
        except JobNotQueued:
            return None
        except JobNotFound:  # Safir looks at the call once more, and a worker may have finished it by then
            return job_id
        return job_id


def _pool_of(queue: Any) -> ArqRedis:
    """Find the pool of Safir's queue."""
    pool = getattr(queue, "_pool", None)
    if not isinstance(pool, ArqRedis):
        message = "ArqQueueBackend(...): expected a pool of arq or Safir's RedisArqQueue, got"
        message += f" {type(queue).__name__}; without a server use InlineQueueBackend"
        raise ConfigError(message)
    return pool


def _require_json(pool: ArqRedis, queue: object) -> None:
    """Refuse a pool that writes something else, by trying it."""
    if pool.job_serializer is not None and pool.job_deserializer is not None:
        try:
            written = pool.job_serializer(_PROBE)
            if decode(written) == _PROBE == pool.job_deserializer(written):
                return
        except Exception:  # noqa: BLE001, S110 - whatever a serialiser raises, it does not write JSON
            pass
    message = f"ArqQueueBackend(...): expected a pool that writes JSON, got a {type(queue).__name__} that does not;"
    message += " pickle lets whoever can write to Redis run code in every worker. Make the pool with arq_pool(url),"
    message += " and Safir's queue with RedisArqQueue(arq_pool(url)): its own initialize() always pickles"
    raise ConfigError(message)


def _chunks(ids: list[str]) -> Sequence[list[str]]:
    return [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)]


def _told(value: object) -> object:
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    message = f"expected a value that JSON has a form for, got {type(value).__name__}"
    raise NotImplementedError(message)
