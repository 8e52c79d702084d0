"""Webhooks: the endpoints that messages are posted to, and what became of each message about a job."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from holdfast.about import About
from holdfast.resources.examples import MOMENT
from holdfast.resources.request import Request

_URL = "https://shop.example.org/hooks/jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An endpoint that webhooks are posted to; the numbers are those of the last 10,000 messages."""

    url: Annotated[str, About("Its URL, without the query.", _URL)]
    enabled: Annotated[bool, About("Whether messages are posted to it.", example=True)] = True
    disabled_at: Annotated[datetime | None, About("When it was disabled.", MOMENT)] = None
    reason: Annotated[str | None, About("Why it was disabled.", "it answered 410 Gone", quotes=True)] = None
    pending: Annotated[int, About("How many messages wait.", 3)] = 0
    delivered: Annotated[int, About("How many messages were delivered.", 311)] = 0
    failed: Annotated[int, About("How many messages failed for good.", 2)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointList:
    """All endpoints that have messages or are disabled."""

    endpoints: list[Endpoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnableRequest(Request):
    """The endpoint to enable."""

    url: Annotated[str, About("Its URL; a query is left out.", _URL)] = field(
        metadata={"min_length": 1, "max_length": 2_000}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTry:
    """One try to post a message."""

    at: Annotated[datetime, About("When it was tried.", MOMENT)]
    status: Annotated[int | None, About("The status that the endpoint answered with.", 200)] = None
    error: Annotated[str | None, About("Why the try failed.", "answered 500", quotes=True)] = None
    took_ms: Annotated[int, About("How long the try took.", 35)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A webhook message about the end of one run of a job."""

    run: Annotated[int, About("The run of the job that the message is about.", 1)]
    event: Annotated[str, About("How the run finished.", "job:completed")]
    url: Annotated[str, About("Where the message is posted to, without the query.", "https://shop.example.org/hooks")]
    state: Annotated[str, About("`pending`, `delivered` or `failed`.", "delivered")]
    tries: Annotated[int, About("How often it was tried to post the message.", 1)]
    at: Annotated[datetime, About("When the run finished.", MOMENT)]
    next_at: Annotated[datetime | None, About("When it is tried next.", MOMENT)] = None
    finished_at: Annotated[datetime | None, About("When it was delivered, or failed for good.", MOMENT)] = None
    log: Annotated[list[DeliveryTry], About("The tries, oldest first.")] = field(default_factory=list)
