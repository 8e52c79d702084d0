"""The secrets that an app was given, so that nothing it writes shows them."""

from collections.abc import Iterator

from holdfast.arq_delivery import ArqDelivery
from holdfast.config import Settings
from holdfast.policies.channels import Channel, Email, PagerDuty, SignedWebhook, Slack
from holdfast.shards import RedisDelivery
from holdfast.telemetry import redaction
from holdfast.webhooks.settings import Secrets


def keep_secrets(settings: Settings) -> None:
    """Cover the secrets of an app in every line that this process logs."""
    redaction.keep(_secrets_of(settings), _names_of(settings))


def _secrets_of(settings: Settings) -> Iterator[str]:
    for url in _urls(settings):
        yield from redaction.password_in(url)
    yield from _written(settings.webhooks.secret)
    for secrets in settings.webhooks.endpoints.values():
        yield from _written(secrets)
    for queue in settings.queues.values():
        yield from _written(queue.webhook_secret)
    for channel in settings.channels.values():
        yield from _of_channel(channel)


def _names_of(settings: Settings) -> Iterator[str]:
    """Name what may be shown, also where a password is the same text."""
    yield settings.schema
    for url in _urls(settings):
        yield from redaction.names_in(url)


def _urls(settings: Settings) -> Iterator[str | None]:
    yield settings.url
    yield settings.listen_dsn
    if isinstance(settings.delivery, RedisDelivery):
        yield from (shard.url for shard in settings.delivery.shards)
    if isinstance(settings.delivery, ArqDelivery):
        yield settings.delivery.url
    if settings.leader is not None:
        yield settings.leader.url


def _written(secrets: Secrets | None) -> Iterator[str]:
    """Name secrets as they are written, with and without what they begin with."""
    for secret in () if secrets is None else (secrets,) if isinstance(secrets, str) else secrets:
        yield secret
        yield secret.removeprefix("whsec_")


def _of_channel(channel: Channel) -> Iterator[str]:
    if isinstance(channel, PagerDuty):
        yield channel.key
    elif isinstance(channel, Slack):
        yield channel.url
    elif isinstance(channel, Email):
        yield from (channel.password,) if channel.password else ()
    elif isinstance(channel, SignedWebhook):
        yield from _written(channel.secret)
