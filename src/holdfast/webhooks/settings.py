"""Where messages may be posted to, and with which secrets they are signed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from holdfast.about import About
from holdfast.duration import Duration, PositiveDuration, milliseconds
from holdfast.errors import ConfigError, InvalidValue
from holdfast.webhooks.address import Target, check_url
from holdfast.webhooks.allowed import Allowed, read_allowed
from holdfast.webhooks.signature import SigningSecret, read_secret

Secrets = SigningSecret | Sequence[SigningSecret]
"""One secret (`whsec_...`), or several while one takes the place of another: each signs."""

EventName = Literal["job:completed", "job:failed", "job:cancelled"]
EVENTS: tuple[EventName, ...] = get_args(EventName)
_LONGEST_DEADLINE_MS = 60_000


@dataclass(frozen=True)
class WebhookSettings:
    """Where the ends of jobs may be posted to, and how they are signed."""

    secret: Annotated[
        Secrets | None, About("Signs messages to every endpoint without a secret of its own; one or several.")
    ] = field(default=None, repr=False)
    endpoints: Annotated[
        Mapping[str, Secrets], About("Secrets by the beginning of the URL; the longest that fits counts.")
    ] = field(default_factory=dict, repr=False)
    allow: Annotated[
        Iterable[str], About("Hosts and networks that may be posted to although they are not public.", ["10.0.0.0/8"])
    ] = ()
    deadline: Annotated[PositiveDuration, About("How long one attempt to post may take.", "20s")] = "20s"
    allowed: Allowed = field(init=False, repr=False, compare=False)
    deadline_s: float = field(init=False, repr=False, compare=False)
    keys: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    endpoint_keys: Mapping[str, tuple[bytes, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "allow", tuple(self.allow))
            object.__setattr__(self, "allowed", read_allowed(self.allow))
            object.__setattr__(self, "keys", read_secrets(self.secret))
            keys = {prefix: read_secrets(secrets) for prefix, secrets in self.endpoints.items()}
            object.__setattr__(self, "endpoint_keys", keys)
            object.__setattr__(self, "deadline_s", _deadline_s(self.deadline))
        except InvalidValue as error:
            message = f"WebhookSettings(...): {error}"
            raise ConfigError(message) from error

    def checked(self, url: str, queue_keys: tuple[bytes, ...]) -> Target:
        """Check a URL before anything is to be posted there: that it may be reached, and that messages are signed."""
        target = check_url(url, self.allowed)
        if not self.keys_for(target, queue_keys):
            message = f"webhook URL: there is no secret to sign messages to {target.endpoint} with; give one to"
            message += " Holdfast(webhooks=WebhookSettings(secret=...)), to its endpoints, or to the queue"
            raise InvalidValue(message)
        return target

    def keys_for(self, target: Target, queue_keys: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The secrets for an endpoint: its own, else its queue's, else the app's."""
        fitting = [prefix for prefix in self.endpoint_keys if _begins(target.url, prefix)]
        if fitting:
            return self.endpoint_keys[max(fitting, key=len)]
        return queue_keys or self.keys


def _deadline_s(deadline: Duration) -> float:
    length = milliseconds(deadline, "deadline")
    if not 0 < length <= _LONGEST_DEADLINE_MS:
        message = f"deadline: expected more than 0 and at most 60s, got {deadline!r}"
        raise InvalidValue(message)
    return length / 1_000


def read_secrets(secrets: Secrets | None) -> tuple[bytes, ...]:
    """Read one secret or several."""
    if secrets is None:
        return ()
    return tuple(read_secret(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets))


def read_events(events: Iterable[str]) -> tuple[str, ...]:
    """Check which ends are posted."""
    chosen = tuple(dict.fromkeys(str(event) for event in events))
    unknown = [event for event in chosen if event not in EVENTS]
    if unknown or not chosen:
        message = f"webhook_events: expected some of {', '.join(EVENTS)}, got {', '.join(unknown) or 'none'}"
        raise InvalidValue(message)
    return chosen


def _begins(url: str, prefix: str) -> bool:
    """Whether a URL begins so, and not only with the same letters: that of a.org.uk does not begin with a.org."""
    rest = url.removeprefix(prefix)
    return rest != url and (not rest or prefix.endswith("/") or rest[0] in "/?:")
