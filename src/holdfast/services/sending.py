"""Sending messages to channels: from the outbox, several at once, again and again through an outage.

Any number of processes may do it at once: whoever takes a message has it for the length of a lease. A message that was
sent and could not be recorded is sent again; the key or id in it lets the receiver tell repeats.
"""

import asyncio
import logging
import random
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import urlsplit

import msgspec

from holdfast.config import Settings
from holdfast.errors import ConfigError, HoldfastError, InvalidValue
from holdfast.escalation import pagerduty, slack, webhook, words
from holdfast.escalation.facts import Facts, Together
from holdfast.failure import clean
from holdfast.policies.channels import Channel, Email, PagerDuty, SignedWebhook, Slack
from holdfast.policies.escalation import Escalation
from holdfast.services.posting import Posted, Poster
from holdfast.services.service import Round
from holdfast.stores.alarms import Notice, NoticeState, NoticeStore
from holdfast.webhooks.address import Allowed, check_url, read_allowed
from holdfast.webhooks.signature import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    read_secret,
    signature,
)

_logger = logging.getLogger("holdfast")

DEADLINE_S = 10.0
_LEASE_MS = 30_000
_DELAYS_S = (5, 15, 60, 300, 900, 1_800)  # the last one from then on
_JITTER = 0.1
GIVE_UP_MS = 3 * 86_400_000
_LONGEST_WAIT_S = 86_400.0
_RECORDING_S = 5.0
_AGAIN_S = 0.1
_ERROR_BYTES = 500
# The message itself is refused: it will not get better. Everything else may, also by mending the settings.
_REFUSED = frozenset({400, 413})


class Sent(msgspec.Struct, frozen=True):
    """What became of one try: no error, or what went wrong, and whether another try makes sense."""

    error: str | None = None
    retry_after_s: float | None = None
    is_final: bool = False


class Sender:
    """Sends messages through the channels of an app."""

    def __init__(self, channels: Mapping[str, Channel]) -> None:
        self._channels = channels
        self._allowed = _allowed(channels.values())
        self._poster: Poster | None = None

    @property
    def poster(self) -> Poster:
        """The client of HTTP, made when it is first needed; refused if its package is missing."""
        if self._poster is None:
            self._poster = Poster(self._allowed, deadline_s=DEADLINE_S)
        return self._poster

    async def close(self) -> None:
        """Let go of everything."""
        if self._poster is not None:
            await self._poster.close()

    async def send(self, name: str, event: str, message: Facts | Together, notice: int = 0) -> Sent:
        """Send a message once; whatever goes wrong is told by what comes back."""
        channel = self._channels[name]
        if isinstance(channel, Email):
            from holdfast.services import mailing  # noqa: PLC0415 - only who sends mail needs its modules

            error = await asyncio.to_thread(mailing.send, channel, event, message, notice, DEADLINE_S)
            return Sent(error)
        if isinstance(channel, PagerDuty):
            return await self._post(channel.url, pagerduty.event_of(channel, event, message), {}, channel.key)
        if isinstance(channel, Slack):
            return await self._post(channel.url, slack.message_of(event, message), {}, channel.url)
        now, message_id = datetime.now(UTC), f"{message.dedup}-{event}-{notice}".replace(".", "-")
        body, stamp = webhook.body_of(event, message, now.isoformat()), int(now.timestamp())
        signed = {
            ID_HEADER: message_id,
            TIMESTAMP_HEADER: str(stamp),
            SIGNATURE_HEADER: signature([read_secret(channel.secret)], message_id, stamp, body),
        }
        return await self._post(channel.url, body, signed, channel.secret)

    async def test(self, policy: Escalation) -> dict[str, Sent]:
        """Send a test message through every channel of a policy; what came back, by the channel's name."""
        facts = Facts(
            dedup=f"holdfast-{policy.name}-test-{time.time_ns()}",
            policy=policy.name,
            source="failed",
            title=f"a test of the escalation policy {policy.name}",
            last_at=datetime.now(UTC),
        )
        return {name: await self.send(name, words.TEST, facts) for name in policy.channels}

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str], secret: str) -> Sent:
        target = check_url(url, self._allowed)
        posted = await self.poster.post(target, {"content-type": "application/json", **headers}, body)
        if posted.status is not None and 200 <= posted.status < 300:  # noqa: PLR2004 - as HTTP has it
            return Sent()
        error = clean(_refusal(posted).replace(secret, "(hidden)"), _ERROR_BYTES)
        return Sent(error, posted.retry_after_s, posted.status in _REFUSED)


class Sending:
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


def require_channels(settings: Settings) -> None:
    """Refuse to start with channels that cannot be used: a wrong address or secret, a package that is missing."""
    for queue in settings.queues.values():
        if queue.escalation is not None and queue.escalation not in settings.escalations:
            known = ", ".join(sorted(settings.escalations)) or "none that are defined"
            message = f"queue {queue.name!r}: escalation: expected a policy among {known}, got {queue.escalation!r}"
            raise ConfigError(message)
    for name, channel in settings.channels.items():
        if isinstance(channel, Email):
            continue
        try:
            check_url(channel.url, _allowed([channel]))
            if isinstance(channel, SignedWebhook):
                read_secret(channel.secret)
        except InvalidValue as error:
            message = f"channel {name!r}: {error}"
            raise ConfigError(message) from error
    if any(not isinstance(channel, Email) for channel in settings.channels.values()):
        Poster(read_allowed(()))  # which needs a package


def _allowed(channels: Iterable[Channel]) -> Allowed:
    """Let the addresses be reached that the settings name, wherever they are: who sets them runs this program."""
    entries: list[str] = []
    for channel in channels:
        if not isinstance(channel, Email):
            parts = urlsplit(channel.url)
            host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
            named = f"[{host}]" if ":" in host else host
            entries += [named, f"{named}:{port}"]
    return read_allowed(entries)


def _refusal(posted: Posted) -> str:
    if posted.status is None:
        return posted.error or "no answer"
    said = " ".join(posted.excerpt.split())
    return f"answered {posted.status}" + (f": {said}" if said else "")
