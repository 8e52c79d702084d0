"""Escalation policies: who is notified of failures, how soon a person has to answer, and who is notified next."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from msgspec import Meta

from holdfast import names
from holdfast.about import About
from holdfast.duration import PositiveDuration, milliseconds
from holdfast.errors import ConfigError, InvalidValue, shown
from holdfast.hours import ClosingTime, DateOrSpan, Hours, TimeOfDay, Weekdays, read_hours
from holdfast.policies.channels import WebUrl
from holdfast.policies.rate import Rate, RateText, read_rate
from holdfast.zones import ZoneName

Source = Literal["failed", "sla", "budget", "schedule"]
SOURCES: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True, kw_only=True)
class BusinessHours:
    """When people work, so that a response clock runs only then."""

    days: Annotated[Weekdays, About("The days on which people work.", "mon-fri")] = "mon-fri"
    from_: Annotated[TimeOfDay, About("When they begin.", "09:00")] = "09:00"
    to: Annotated[ClosingTime, About("When they stop.", "17:00")] = "17:00"
    tz: Annotated[ZoneName, About("The time zone of these times.", "Europe/Berlin")] = "UTC"
    holidays: Annotated[Iterable[DateOrSpan], About("Days and spans of days without work.", ["2026-12-25"])] = ()
    hours: Hours = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            hours = read_hours(window=(self.from_, self.to), days=self.days, tz=self.tz, exclude=self.holidays)
        except InvalidValue as error:
            message = f"business hours: {error}"
            raise ConfigError(message) from error
        object.__setattr__(self, "hours", hours)


@dataclass(frozen=True, kw_only=True)
class Escalation:
    """What happens when a job fails for good, an SLA is missed, a budget is nearly spent, or a schedule is missed."""

    name: Annotated[str, About("Name of the policy.", "ops")]
    channels: Annotated[Iterable[names.Name], About("The channels that get the message.", ["pager"])]
    digest_at: Annotated[
        TimeOfDay | None, About("When one message a day is sent instead, with everything since the last.", "08:00")
    ] = None
    tz: Annotated[ZoneName, About("The time zone of `digest_at`.", "Europe/Berlin")] = "UTC"
    respond_within: Annotated[PositiveDuration | None, About("How soon an acknowledgement is due.", "15m")] = None
    business_hours: Annotated[BusinessHours | None, About("The hours in which that time counts; else always.")] = None
    repeat: Annotated[
        int, Meta(ge=0, le=100), About("How often the message is repeated without an acknowledgement.", 2)
    ] = 0
    then: Annotated[names.Name | None, About("The policy that takes over after that.", "managers")] = None
    fields: Annotated[
        Iterable[names.Text], About("Which arguments of the job the message may show.", ["customer"])
    ] = ()
    link: Annotated[
        WebUrl | None,
        About(
            "Where the message leads: a URL with `{id}`, `{kind}`, `{queue}` and `{escalation}`.",
            "https://example.org/jobs/{id}",
        ),
    ] = None
    rate: Annotated[RateText, About("How many messages are sent in a time; more go together into one.", "30/h")] = (
        "30/h"
    )
    sources: Annotated[Sequence[Source], About("What is escalated.", ["failed"])] = SOURCES
    respond_ms: int | None = field(init=False, repr=False, compare=False)
    most: Rate = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            self._read()
        except InvalidValue as error:
            message = f"escalation {shown(self.name)}: {error}"
            raise ConfigError(message) from error

    def _read(self) -> None:
        object.__setattr__(self, "name", names.name(self.name, "name"))
        channels = (self.channels,) if isinstance(self.channels, str) else self.channels
        object.__setattr__(self, "channels", tuple(names.name(channel, "channels") for channel in channels))
        if not self.channels:
            message = "channels: expected at least one channel, got none"
            raise InvalidValue(message)
        object.__setattr__(self, "fields", tuple(names.text(one, "fields", names.KEY_BYTES) for one in self.fields))
        if self.then is not None:
            object.__setattr__(self, "then", names.name(self.then, "then"))
        within = self.respond_within
        object.__setattr__(self, "respond_ms", None if within is None else milliseconds(within, "respond_within"))
        object.__setattr__(self, "most", read_rate(self.rate, "rate"))
        if isinstance(self.repeat, bool) or not isinstance(self.repeat, int) or not 0 <= self.repeat <= 100:  # noqa: PLR2004 - said often enough
            message = f"repeat: expected a whole number from 0 to 100, got {shown(self.repeat)}"
            raise InvalidValue(message)
        if self.repeat and self.respond_within is None:
            message = "repeat: expected respond_within with it, got none; it says after what time to repeat"
            raise InvalidValue(message)
        if self.then is not None and self.respond_within is None:
            message = "then: expected respond_within with it, got none; it says after what time to go on"
            raise InvalidValue(message)
        if self.link is not None and not self.link.startswith(("http://", "https://")):
            message = f"link: expected an http:// or https:// URL, got {shown(self.link)}"
            raise InvalidValue(message)
        object.__setattr__(self, "sources", (self.sources,) if isinstance(self.sources, str) else tuple(self.sources))
        if unknown := [source for source in self.sources if source not in SOURCES]:
            message = f"sources: expected among {', '.join(SOURCES)}, got {shown(unknown[0])}"
            raise InvalidValue(message)
        if self.digest_at is not None:
            read_hours(window=(self.digest_at, "24:00"), tz=self.tz)
            if self.repeat:
                message = "repeat: expected 0 with digest_at, what a digest has told is not told again"
                raise InvalidValue(message)


def check_policies(policies: Mapping[str, Escalation], channels: Iterable[str]) -> None:
    """Refuse policies that name channels or policies that do not exist, or that hand over in a circle."""
    known = sorted(channels)
    for policy in policies.values():
        what = f"escalation {policy.name!r}"
        if unknown := [name for name in policy.channels if name not in known]:
            message = (
                f"{what}: channels: expected among {', '.join(known) or 'none that are defined'}, got {unknown[0]!r}"
            )
            raise ConfigError(message)
        seen, following = [policy.name], policy.then
        while following is not None:
            if following not in policies:
                message = f"{what}: then: expected a policy among {', '.join(sorted(policies))}, got {following!r}"
                raise ConfigError(message)
            if following in seen:
                message = f"{what}: then: expected an end, got the circle {' -> '.join([*seen, following])}"
                raise ConfigError(message)
            seen.append(following)
            following = policies[following].then
