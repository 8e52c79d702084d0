"""Sends a message through a channel of an app: by HTTP or by mail, once."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec

from holdfast.config import Settings
from holdfast.errors import ConfigError, InvalidValue
from holdfast.escalation import pagerduty, slack, webhook, words
from holdfast.escalation.facts import Facts, Together
from holdfast.escalation.posting import Posted, Poster
from holdfast.failure import clean
from holdfast.policies.channels import Channel, Email, PagerDuty, SignedWebhook, Slack
from holdfast.policies.escalation import Escalation
from holdfast.webhooks.address import Allowed, check_url, read_allowed
from holdfast.webhooks.signature import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    read_secret,
    signature,
)

DEADLINE_S = 10.0
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
            from holdfast.escalation import mailing  # noqa: PLC0415 - only who sends mail needs its modules

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
