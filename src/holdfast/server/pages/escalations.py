"""The pages of escalations: what went wrong, who was told, and what became of it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fastapi import Form, Query, Request
from starlette.responses import Response

from holdfast import public_id
from holdfast.escalation.clock import next_digest
from holdfast.escalation.facts import dedup_key
from holdfast.policies.escalation import Escalation
from holdfast.server.pages.clock import store_time
from holdfast.server.pages.rendering import page, turned, url
from holdfast.server.problems import not_found
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen, Who, noted, served
from holdfast.server.sight import Sight
from holdfast.services.sending import Sender, require_channels
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
    sight: Seen,
    show: str = Query("all", max_length=10),
    before: int | None = Query(None, ge=1, le=2**63 - 1),
) -> Response:
    """Show what went wrong, the newest first."""
    chosen = show if show in _CHOICES else "all"
    rows, following = await _visible(sight, is_open=_CHOICES[chosen], before=before)
    policies = served(request).settings.escalations if sight.principal.queues is None else {}
    return page(
        request,
        "escalations.html",
        at="escalations",
        rows=rows,
        next=following,
        show=chosen,
        shows=list(_CHOICES),
        policies=[policies[name] for name in sorted(policies)],
        digests=[await _digest(sight, policies[name]) for name in sorted(policies) if policies[name].digest_at],
        job_id=public_id.encode,
        soon=datetime.now(UTC) + _SOON,
        hide=hide,
    )


@routes.get("/escalations/{number}", Permission.LOOK)
async def escalation_page(request: Request, number: int, sight: Seen) -> Response:
    """Show one escalation, and the messages about it."""
    found = await sight.escalation(number)
    return page(
        request,
        "escalation.html",
        at="escalations",
        row=found.escalation,
        notices=found.notices,
        dedup=dedup_key(found.escalation),
        jobs=[public_id.encode(job) for job in found.escalation.jobs],
        soon=datetime.now(UTC) + _SOON,
        hide=hide,
    )


@routes.post("/escalations/{number}/ack", Permission.ANSWER_ESCALATIONS)
async def ack_escalation_here(
    request: Request, number: int, sight: Seen, who: Who, note: str = Form("", max_length=500)
) -> Response:
    """Answer an escalation, which closes it."""
    found = await sight.escalation(number)
    noted(request, queue=found.escalation.queue or None, note=note or None)
    await sight.client.ack_escalation(number, actor=who.name, note=note or None)
    return turned(request, url(request, "escalations", number), f"escalation {number} is answered")


@routes.post("/escalations/{number}/snooze", Permission.ANSWER_ESCALATIONS)
async def snooze_escalation_here(
    request: Request, number: int, sight: Seen, who: Who, lasts: str = Form("1h", max_length=20)
) -> Response:
    """Say nothing of an escalation for a while."""
    found = await sight.escalation(number)
    noted(request, queue=found.escalation.queue or None, lasts=lasts)
    await sight.client.snooze_escalation(number, lasts=lasts, actor=who.name)
    return turned(request, url(request, "escalations", number), f"nothing is said of escalation {number} for {lasts}")


@routes.post("/escalations/policies/{policy}/test", Permission.ANSWER_ESCALATIONS)
async def test_escalation_here(request: Request, policy: str, sight: Seen) -> Response:
    """Send a test message through the channels of a policy, and show what each answered."""
    settings = served(request).settings
    named = settings.escalations.get(policy)
    if named is None or sight.principal.queues is not None:
        raise not_found("policy", policy)
    require_channels(settings)
    sender = Sender(settings.channels)
    try:
        sent = await sender.test(named)
    finally:
        await sender.close()
    answers = {channel: one.error for channel, one in sent.items()}
    noted(request, failed=[channel for channel, error in answers.items() if error is not None])
    return page(request, "escalation_test.html", at="escalations", policy=named, answers=answers)


async def _digest(sight: Sight, policy: Escalation) -> Digest:
    """Read what the next digest of a policy would tell."""
    rows = await sight.store.undigested(policy.name, _MOST_DIGESTED)
    return Digest(
        policy=policy.name,
        at=next_digest(policy.digest_at or "", policy.tz, await store_time(sight.store)),
        alarms=sum(row.count - row.digested for row in rows),
        entries=[(row, row.count - row.digested) for row in rows[:_DIGEST_ENTRIES]],
        escalations=len(rows),
        is_cut=len(rows) == _MOST_DIGESTED,
    )


async def _visible(sight: Sight, *, is_open: bool | None, before: int | None) -> tuple[list[EscalationRow], int | None]:
    """Read one page of what they may see, and where the next one begins."""
    found: list[EscalationRow] = []
    for _ in range(_MOST_PAGES):
        rows = await sight.client.escalations(is_open=is_open, limit=_PAGE + 1, before=before)
        found += await sight.escalations(rows)
        if len(rows) <= _PAGE:
            return found[:_PAGE], found[_PAGE - 1].id if len(found) > _PAGE else None
        before = rows[-1].id
        if len(found) > _PAGE:
            return found[:_PAGE], found[_PAGE - 1].id
    return found[:_PAGE], before
