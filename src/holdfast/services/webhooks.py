"""Posts the ends of jobs to webhooks: from the outbox, several at once, outside the slots of jobs.

Any number of processes may do it at once: the process that takes a message has it for the length of a lease. A
message that was posted and could not be recorded is posted again with the same id, by which receivers tell repeats.
"""

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.config import Settings
from holdfast.errors import HoldfastError, InvalidValue
from holdfast.escalation.posting import Posted, Poster
from holdfast.job import DeliveryTryRow
from holdfast.payload import covered
from holdfast.stores.deliveries import DeliveryStore, Message
from holdfast.webhooks.address import Target, check_url
from holdfast.webhooks.breaker import Breaker
from holdfast.webhooks.hosts import Hosts
from holdfast.webhooks.schedule import next_delay_s
from holdfast.webhooks.signature import ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, signature

_logger = logging.getLogger("holdfast")

AT_ONCE = 32  # of which one host has a part only
_LEASE_BEYOND_S = 10.0  # of the deadline of one try, to record what became of it
_QUICK_S, _SLOW_S, _QUICK_FOR_S = 0.1, 1.0, 10.0
_BREAK_S = 60.0
_GONE = 410
_RECORDING_S = 5.0


class WebhooksService:
    """Posts messages until it is closed."""

    def __init__(self, store: DeliveryStore, settings: Settings, poster: Poster | None = None) -> None:
        self._store = store
        self._settings = settings
        self._poster = poster or Poster(settings.webhooks.allowed, deadline_s=settings.webhooks.deadline_s)
        self._breaker = Breaker()
        self._hosts = Hosts()
        self._tries: set[asyncio.Task[None]] = set()
        self._taking: asyncio.Task[int] | None = None
        self._freed = asyncio.Event()
        self._busy_at = time.monotonic()
        self._is_failing = False

    async def serve(self) -> None:
        """Post whatever is due."""
        while True:
            if not await self.take():
                is_quick = self._tries or time.monotonic() - self._busy_at < _QUICK_FOR_S
                await self._wait(_QUICK_S if is_quick else _SLOW_S)

    async def take(self) -> int:
        """Take what is due, as much as may be posted at once; the answer is how much that was."""
        # Whoever is cancelled meanwhile must not lose what the store has handed out: `close` waits for it.
        self._taking = asyncio.create_task(self._take(), name="holdfast webhooks due")
        return await asyncio.shield(self._taking)

    async def _take(self) -> int:
        free = AT_ONCE - len(self._tries)
        if free < 1:
            return 0
        lease_ms = round((self._settings.webhooks.deadline_s + _LEASE_BEYOND_S) * 1_000)
        try:
            messages = await self._store.claim_deliveries(free, lease_ms)
        except HoldfastError as error:
            if not self._is_failing:
                _logger.warning("webhooks are posted later, the store cannot be asked: %s", error)
            self._is_failing = True
            return 0
        self._is_failing = False
        for message in messages:
            task = asyncio.create_task(self._try(message), name="holdfast webhook")
            self._tries.add(task)
            task.add_done_callback(self._ended)
        if messages:
            self._busy_at = time.monotonic()
        return len(messages)

    async def close(self, patience_s: float) -> None:
        """Post what is due and wait for the tries under way, as long as there is time; the rest stays in the outbox."""
        ends_at = time.monotonic() + patience_s
        if self._taking is not None:
            await asyncio.wait([self._taking])
        while (left := ends_at - time.monotonic()) > 0:
            taken = await self.take()
            if not self._tries and not taken:
                break
            await asyncio.wait(self._tries, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for task in self._tries:
            task.cancel()
        await asyncio.gather(*self._tries, return_exceptions=True)
        await self._poster.close()

    async def _wait(self, seconds: float) -> None:
        self._freed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._freed.wait()
        except TimeoutError:
            return

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tries.discard(task)
        self._freed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("a webhook could not be handled, it is tried again when its lease ends", exc_info=error)

    # ---- one try ---------------------------------------------------------------------------------------------------

    async def _try(self, message: Message) -> None:
        try:
            target = check_url(message.url, self._settings.webhooks.allowed)
        except InvalidValue as error:  # what is allowed has changed since it was registered
            await self._record(message, Posted(None, str(error), None, 0, ""))
            return
        if not self._breaker.may_try(target.endpoint):
            await self._store.postpone_delivery(message, round(_BREAK_S * 1_000))
            return
        if (wait_s := await self._hosts.enter(target.host)) is not None:
            await self._store.postpone_delivery(message, round(wait_s * 1_000))
            return
        began = time.monotonic()
        try:
            posted = await self._post(message, target)
        finally:
            self._hosts.leave(target.host, time.monotonic() - began)
        is_accepted = posted.status is not None and 200 <= posted.status < 300  # noqa: PLR2004 - as HTTP has it
        if is_accepted:
            self._breaker.succeeded(target.endpoint)
        else:
            self._breaker.failed(target.endpoint)
        await self._record(message, posted, is_accepted=is_accepted)

    async def _post(self, message: Message, target: Target) -> Posted:
        keys = self._settings.webhooks.keys_for(target, self._settings.webhook_keys_of(message.queue))
        if not keys:
            return Posted(None, "there is no secret any more to sign messages to this endpoint with", None, 0, "")
        body, name, now = body_of(message), id_of(message), int(time.time())
        headers = {
            "content-type": "application/json",
            ID_HEADER: name,
            TIMESTAMP_HEADER: str(now),
            SIGNATURE_HEADER: signature(keys, name, now, body),
        }
        return await self._poster.post(target, headers, body)

    async def _record(self, message: Message, posted: Posted, *, is_accepted: bool = False) -> None:
        delay_s = None if is_accepted else next_delay_s(message.tries, retry_after_s=posted.retry_after_s)
        is_gone = posted.status == _GONE
        if is_accepted:
            state = "delivered"
        elif delay_s is None or is_gone:
            state = "failed"
        else:
            state = "pending"
        tried = DeliveryTryRow(datetime.now(UTC), posted.status, posted.error or _refusal(posted), posted.took_ms)
        entry = msgspec.json.encode(tried).decode()
        if is_gone:
            await self._until_stored(lambda: self._store.disable_endpoint(_place(message), "it answered 410 Gone"))
        delay_ms = round((delay_s or 0) * 1_000)
        await self._until_stored(lambda: self._store.end_delivery(message, state, delay_ms, entry))
        if state == "failed":
            _logger.warning("a webhook about job %s was given up: %s", public_id.encode(message.job_id), tried.error)

    async def _until_stored(self, verb: Any) -> None:
        """Record what became of a try; if the store stays away, the lease ends and it is posted again."""
        ends_at = time.monotonic() + _RECORDING_S
        while True:
            try:
                await verb()
            except HoldfastError as error:
                if time.monotonic() > ends_at:
                    _logger.warning("a webhook was posted and could not be recorded, it is posted again: %s", error)
                    return
                await asyncio.sleep(_QUICK_S)
            else:
                return


def is_wanted(settings: Settings) -> bool:
    """Whether an app can sign a message at all, and so may have registered one."""
    hooks = settings.webhooks
    return bool(hooks.keys or hooks.endpoint_keys or any(queue.webhook_keys for queue in settings.queues.values()))


def require_http(settings: Settings) -> None:
    """Refuse to start without what posting needs, if this app may have something to post."""
    if is_wanted(settings):
        Poster(settings.webhooks.allowed)


def id_of(message: Message) -> str:
    """Name a message: the same on every try, and another for every life and event."""
    return f"{public_id.encode(message.job_id)}_{message.life}_{message.event.replace(':', '-')}"


def body_of(message: Message) -> bytes:
    """Write a message."""
    data = {
        "id": public_id.encode(message.job_id),
        "kind": message.task,
        "queue": message.queue,
        "state": message.status,
        "run": message.life,
        "attempt": message.attempt,
        "tags": {} if message.tags is None else msgspec.json.decode(message.tags),
        "error": None if message.error is None else f"{message.error_class}: {message.error}",
    }
    if message.result_omitted:
        data["result_omitted"] = True
    else:
        data["result"] = None if message.result is None else covered(msgspec.json.decode(message.result))
    return msgspec.json.encode(
        {"type": message.event.replace(":", "."), "timestamp": message.at, "data": data}, order="deterministic"
    )


def _refusal(posted: Posted) -> str | None:
    if posted.status is None or 200 <= posted.status < 300:  # noqa: PLR2004 - as HTTP has it
        return None
    return f"answered {posted.status}"


def _place(message: Message) -> str:
    return message.url.partition("?")[0]
