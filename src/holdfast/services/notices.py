"""Sends messages to channels: from the outbox, several at once, again and again through an outage.

Any number of processes may do it at once: the process that takes a message has it for the length of a lease. A
message that was sent and could not be recorded is sent again; the key or id in it lets the receiver tell repeats.
"""

import asyncio
import logging
import random
import time
from typing import ClassVar

import msgspec

from holdfast.config import Settings
from holdfast.errors import HoldfastError
from holdfast.escalation import words
from holdfast.escalation.facts import Facts, Together
from holdfast.escalation.sender import Sender, Sent
from holdfast.services.service import Round
from holdfast.stores.alarms import Notice, NoticeState, NoticeStore

_logger = logging.getLogger("holdfast")

_LEASE_MS = 30_000
_DELAYS_S = (5, 15, 60, 300, 900, 1_800)  # the last one from then on
_JITTER = 0.1
GIVE_UP_MS = 3 * 86_400_000
_LONGEST_WAIT_S = 86_400.0
_RECORDING_S = 5.0
_AGAIN_S = 0.1


class NoticesService:
    """Sends what is due."""

    name: ClassVar[str] = "notices"

    def __init__(self, store: NoticeStore, settings: Settings) -> None:
        self._store = store
        self._channels = list(settings.channels)
        self._sender = Sender(settings.channels)
        self._failing: set[str] = set()  # channels of which somebody was told that they fail

    async def run(self, batch: int) -> Round:
        """Send what is due, at most so many at once."""
        notices = await self._store.claim_notices(self._channels, batch, _LEASE_MS)
        sent = await asyncio.gather(*(self._try(notice) for notice in notices))
        due_ms = None if len(notices) >= batch else await self._store.next_notice_ms(self._channels)
        return Round(
            scanned=len(notices),
            moved=sum(sent),
            failures=len(sent) - sum(sent),
            next_s=None if due_ms is None else max(due_ms / 1_000, _AGAIN_S),
            has_more=len(notices) >= batch,
        )

    async def _try(self, notice: Notice) -> bool:
        """Send one message and record what became of it."""
        try:
            sent = await self._sender.send(notice.channel, notice.event, read_message(notice), notice.id)
        except Exception as error:  # a message that cannot be written keeps no other from being sent
            _logger.exception("a message to the channel %s cannot be written", notice.channel)
            sent = Sent(f"cannot be written: {type(error).__name__}", is_final=True)
        delay_s = next_delay_s(notice.tries, retry_after_s=sent.retry_after_s)
        state: NoticeState = "sent"
        if sent.error is not None:
            is_over = sent.is_final or notice.age_ms + delay_s * 1_000 > GIVE_UP_MS
            state = "failed" if is_over else "pending"
        self._tell(notice, sent, state)
        await self._until_stored(notice, state, round(delay_s * 1_000) if state == "pending" else 0, sent.error)
        return state == "sent"

    def _tell(self, notice: Notice, sent: Sent, state: NoticeState) -> None:
        if state == "sent":
            self._failing.discard(notice.channel)
        elif state == "failed":
            _logger.error("a message to the channel %s was given up: %s", notice.channel, sent.error)
        elif notice.channel not in self._failing:
            self._failing.add(notice.channel)
            _logger.warning("the channel %s fails, messages wait and are tried again: %s", notice.channel, sent.error)

    async def _until_stored(self, notice: Notice, state: NoticeState, delay_ms: int, error: str | None) -> None:
        """Record what became of a try; if the store stays away, the lease ends and it is sent again."""
        ends_at = time.monotonic() + _RECORDING_S
        while True:
            try:
                await self._store.end_notice(notice, state, delay_ms, error)
            except HoldfastError as trouble:
                if time.monotonic() > ends_at:
                    _logger.warning("a message was sent and could not be recorded, it is sent again: %s", trouble)
                    return
                await asyncio.sleep(_AGAIN_S)
            else:
                return


def read_message(notice: Notice) -> Facts | Together:
    """Read what a message says."""
    if notice.event in words.TOGETHER:
        return msgspec.json.decode(notice.data, type=Together)
    return msgspec.json.decode(notice.data, type=Facts)


def next_delay_s(tries: int, *, retry_after_s: float | None) -> float:
    """How long to wait after so many tries; a receiver may ask for longer."""
    delay_s = _DELAYS_S[min(tries, len(_DELAYS_S)) - 1] * random.uniform(1 - _JITTER, 1 + _JITTER)
    return max(delay_s, min(retry_after_s or 0.0, _LONGEST_WAIT_S))
