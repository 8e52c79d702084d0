"""An entry of the audit, as the client, the HTTP API and the dashboard show it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from holdfast.about import About
from holdfast.resources.examples import MOMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """What a caller did, or tried to do."""

    id: Annotated[str, About("Its number.", "1042")]
    at: Annotated[datetime, About("When it was done.", MOMENT)]
    actor: Annotated[str, About("Who did it: the name of a token, or of a person.", "ada")]
    role: Annotated[str, About("The role of the actor.", "operator")]
    action: Annotated[str, About("What was done, as the API calls it.", "pause_queue")]
    target: Annotated[str, About("What it was done to.", "/api/v1/queues/high/pause")]
    queue: Annotated[str | None, About("The queue it concerns.", "high")] = None
    status: Annotated[int, About("What came of it, as HTTP has it.", 200)]
    detail: Annotated[dict[str, Any], About("What was asked for.", {"reason": "too slow"}, quotes=True)] = field(
        default_factory=dict
    )
    request: Annotated[str, About("The id of the request, as in the log of the server.", "9f86d081884c7d65")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """One page of the audit, the latest first."""

    entries: list[AuditEntry]
    next: Annotated[str | None, About("`before` of the next page; null on the last one.", "1042")] = None
    searched_to: Annotated[
        datetime | None, About("How far back was searched, where that did not fill the page.", MOMENT)
    ] = None
