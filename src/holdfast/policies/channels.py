"""Where escalations go: a pager, a chat, a mailbox, or any program that takes signed webhooks."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from holdfast import names
from holdfast.about import About
from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.formats import text_format

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
_LONGEST_SECRET = 4_096
_LARGEST_PORT = 65_535


def _url(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        message = f"{what}: expected an http:// or https:// URL, got {shown(value)}"
        raise ConfigError(message)
    return value


def _secret_url(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        message = f"{what}: expected an http:// or https:// URL"  # without what came: it may be a secret
        raise ConfigError(message)
    return value


def _secret(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= _LONGEST_SECRET:
        message = f"{what}: expected a text that is not empty"  # without what came: it may be a secret
        raise ConfigError(message)
    return value


def _address(value: Any, what: str) -> str:
    if not isinstance(value, str) or "@" not in value.strip("@") or any(c in value for c in "\r\n"):
        message = f"{what}: expected an address like ops@example.org, got {shown(value)}"
        raise ConfigError(message)
    return value


WebUrl = Annotated[str, text_format(_url, "^https?://")]
SecretUrl = Annotated[str, text_format(_secret_url, "^https?://")]
Secret = Annotated[str, text_format(_secret)]
Address = Annotated[str, text_format(_address, "@")]
"""Types of settings; the configuration file is checked with them."""


@dataclass(frozen=True, kw_only=True)
class PagerDuty:
    """Events v2 of PagerDuty, by the integration key of a service."""

    type: ClassVar[str] = "pagerduty"
    key: Annotated[Secret, About("The integration key of a service.")] = field(repr=False)
    url: Annotated[WebUrl, About("The address of Events v2.")] = PAGERDUTY_URL

    def __post_init__(self) -> None:
        _secret(self.key, "pagerduty key")
        _url(self.url, "pagerduty url")


@dataclass(frozen=True, kw_only=True)
class Slack:
    """An incoming webhook of Slack; its URL is a secret."""

    type: ClassVar[str] = "slack"
    url: Annotated[SecretUrl, About("The address of the incoming webhook, which is a secret.")] = field(repr=False)

    def __post_init__(self) -> None:
        _secret_url(self.url, "slack url")


@dataclass(frozen=True, kw_only=True)
class Email:
    """Mail by SMTP to one or more people."""

    type: ClassVar[str] = "email"
    to: Annotated[Iterable[Address], About("Who gets the mail.", ["ops@example.org"])]
    sender: Annotated[Address, About("The address that it comes from.", "jobs@example.org")]
    host: Annotated[names.Text, About("The mail server.", "localhost")] = "localhost"
    port: Annotated[int, Meta(ge=1, le=_LARGEST_PORT), About("The port of the mail server.", 25)] = 25
    username: Annotated[names.Text | None, About("The name to log in with.", "jobs")] = None
    password: Annotated[Secret | None, About("The password to log in with.")] = field(default=None, repr=False)
    starttls: Annotated[bool, About("Whether the connection is encrypted by STARTTLS.", example=True)] = False

    def __post_init__(self) -> None:
        people = (self.to,) if isinstance(self.to, str) else tuple(self.to)
        for address in (*people, self.sender):
            _address(address, "email")
        if not people:
            message = "email: expected at least one address in `to`, got none"
            raise ConfigError(message)
        object.__setattr__(self, "to", people)
        try:
            names.count(self.port, "port", _LARGEST_PORT)
        except InvalidValue as error:
            message = f"email: {error}"
            raise ConfigError(message) from error


@dataclass(frozen=True, kw_only=True)
class SignedWebhook:
    """A POST signed as Standard Webhooks say; `secret` as for the webhooks of jobs."""

    type: ClassVar[str] = "webhook"
    url: Annotated[WebUrl, About("The URL that is posted to.", "https://example.org/escalations")]
    secret: Annotated[Secret, About("The secret that signs the messages.")] = field(repr=False)

    def __post_init__(self) -> None:
        _url(self.url, "webhook url")
        _secret(self.secret, "webhook secret")


Channel = PagerDuty | Slack | Email | SignedWebhook
