"""The pages of escalations: what went wrong, who was told, and what became of it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fastapi import Form, Query, Request
from starlette.responses import Response

from holdfast.escalation.clock import next_digest
from holdfast.policies.escalation import Escalation
from holdfast.resources.escalation import EscalationInfo
from holdfast.resources.redaction import redact
from holdfast.server.api.escalations import note_queue
from holdfast.server.pages.clock import store_time
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, noted, served
from holdfast.server.scoped.client import ScopedClient
from holdfast.stores.alarms import EscalationRow
from holdfast.telemetry.redaction import hide

routes = Routes("pages", in_schema=False)

_PAGE = 30
_MOST_PAGES = 10
_CHOICES = {"open": True, "closed": False, "all": None}
_SOON = timedelta(minutes=15)
_MOST_DIGESTED = 1_000
_DIGEST_ENTRIES = 10


@dataclass(frozen=True)
class Digest:
    """What the next digest of a policy will tell, as far as it is known now."""

    policy: str
    at: datetime | None
    alarms: int
    entries: list[tuple[EscalationRow, int]]
    escalations: int
    is_cut: bool


@routes.get("/escalations", Permission.LOOK)
async def escalations_page(
    request: Request,
    client: Seen,
    show: str = Query("all", max_length=10),
    before: int | None = Query(None, ge=1, le=2**63 - 1),
) -> Response:
    """Show what went wrong, the newest first."""
    chosen = show if show in _CHOICES else "all"
    rows, following = await _visible(client, is_open=_CHOICES[chosen], before=before)
    policies = served(request).settings.escalations if client.principal.queues is None else {}
    return page(
        request,
        "escalations.html",
        at="escalations",
        rows=redact(rows),
        next=following,
        show=chosen,
        shows=list(_CHOICES),
        policies=[policies[name] for name in sorted(policies)],
        digests=[await _digest(client, policies[name]) for name in sorted(policies) if policies[name].digest_at],
        soon=datetime.now(UTC) + _SOON,
        hide=hide,
    )


@routes.get("/escalations/{number}", Permission.LOOK)
async def escalation_page(request: Request, number: int, client: Seen) -> Response:
    """Show one escalation, and the notices about it."""
    found = redact(await client.escalations.get(number))
    return page(
        request,
        "escalation.html",
        at="escalations",
        row=found.escalation,
        notices=found.notices,
        soon=datetime.now(UTC) + _SOON,
    )


@routes.post("/escalations/{number}/ack", Permission.ANSWER_ESCALATIONS)
async def ack_escalation_here(
    request: Request, number: int, client: Seen, note: str = Form("", max_length=500)
) -> Response:
    """Acknowledge an escalation, which closes it."""
    await note_queue(request, client, number, note=note or None)
    await client.escalations.ack(number, note=note or None)
    return turned(request, url(request, "escalations", number), f"escalation {number} is acknowledged")


@routes.post("/escalations/{number}/snooze", Permission.ANSWER_ESCALATIONS)
async def snooze_escalation_here(
    request: Request, number: int, client: Seen, lasts: str = Form("1h", max_length=20)
) -> Response:
    """Send no notice of an escalation for a while."""
    await note_queue(request, client, number, lasts=lasts)
    await client.escalations.snooze(number, lasts=lasts)
    return turned(request, url(request, "escalations", number), f"escalation {number} is snoozed for {lasts}")


@routes.post("/escalations/policies/{policy}/test", Permission.ANSWER_ESCALATIONS)
async def test_escalation_here(request: Request, policy: str, client: Seen) -> Response:
    """Send a test notice through the channels of a policy, and show what each answered."""
    tested = await client.escalations.test(policy)
    noted(request, failed=[channel.channel for channel in tested.channels if not channel.sent])
    return page(request, "escalation_test.html", at="escalations", tested=redact(tested))


async def _digest(client: ScopedClient, policy: Escalation) -> Digest:
    """Read what the next digest of a policy would tell."""
    rows = await client.figures.undigested(policy.name, _MOST_DIGESTED)
    return Digest(
        policy=policy.name,
        at=next_digest(policy.digest_at or "", policy.tz, await store_time(client)),
        alarms=sum(row.count - row.digested for row in rows),
        entries=[(row, row.count - row.digested) for row in rows[:_DIGEST_ENTRIES]],
        escalations=len(rows),
        is_cut=len(rows) == _MOST_DIGESTED,
    )


async def _visible(
    client: ScopedClient, *, is_open: bool | None, before: int | str | None
) -> tuple[list[EscalationInfo], int | str | None]:
    """Read one page of what the caller may see, and where the next one begins."""
    found: list[EscalationInfo] = []
    for _ in range(_MOST_PAGES):
        part = await client.escalations.list(is_open=is_open, limit=_PAGE + 1, before=before)
        found += part.escalations
        if len(found) > _PAGE:
            return found[:_PAGE], found[_PAGE - 1].id
        if part.next is None:
            return found, None
        before = part.next
    return found, before
