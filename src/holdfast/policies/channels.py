"""Where escalations go: a pager, a chat, a mailbox, or any program that takes signed webhooks."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast import names
from holdfast.errors import ConfigError, InvalidValue, shown

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"


def _url(value: str, what: str) -> str:
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        message = f"{what}: expected an http:// or https:// URL, got {shown(value)}"
        raise ConfigError(message)
    return value


def _secret(value: str, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        message = f"{what}: expected a text that is not empty"  # without what came: it may be a secret
        raise ConfigError(message)
    return value


@dataclass(frozen=True, kw_only=True)
class PagerDuty:
    """Events v2 of PagerDuty, by the integration key of a service."""

    key: str = field(repr=False)
    url: str = PAGERDUTY_URL

    def __post_init__(self) -> None:
        _secret(self.key, "pagerduty key")
        _url(self.url, "pagerduty url")


@dataclass(frozen=True, kw_only=True)
class Slack:
    """An incoming webhook of Slack; its URL is a secret."""

    url: str = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url.startswith(("http://", "https://")):
            message = "slack url: expected an http:// or https:// URL"
            raise ConfigError(message)


@dataclass(frozen=True, kw_only=True)
class Email:
    """Mail by SMTP to one or more people."""

    to: Iterable[str]
    sender: str
    host: str = "localhost"
    port: int = 25
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    starttls: bool = False

    def __post_init__(self) -> None:
        people = (self.to,) if isinstance(self.to, str) else tuple(self.to)
        for address in (*people, self.sender):
            if not isinstance(address, str) or "@" not in address.strip("@") or any(c in address for c in "\r\n"):
                message = f"email: expected addresses like ops@example.org, got {shown(address)}"
                raise ConfigError(message)
        if not people:
            message = "email: expected at least one address in `to`, got none"
            raise ConfigError(message)
        object.__setattr__(self, "to", people)
        try:
            names.count(self.port, "port", 65_535)
        except InvalidValue as error:
            message = f"email: {error}"
            raise ConfigError(message) from error


@dataclass(frozen=True, kw_only=True)
class SignedWebhook:
    """A POST signed as Standard Webhooks say; `secret` as for the webhooks of jobs."""

    url: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        _url(self.url, "webhook url")
        _secret(self.secret, "webhook secret")


Channel = PagerDuty | Slack | Email | SignedWebhook
