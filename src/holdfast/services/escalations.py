"""Turns alarms into escalations, and escalations into messages, until a person answers or it is quiet again.

Any number of processes may do it at once: each step is taken under the version of its escalation, each digest under the
time of the one before, and a message is written in the commit of its step.
"""

import logging
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, NamedTuple, Protocol

import msgspec

from holdfast.config import Settings
from holdfast.errors import DataRefused, StoreError
from holdfast.escalation.clock import answer_by, latest_digest
from holdfast.escalation.facts import Facts, Together, facts_of, together
from holdfast.job import JobRow
from holdfast.policies.channels import PagerDuty, SignedWebhook
from holdfast.policies.escalation import Escalation
from holdfast.services.service import Round
from holdfast.stores.alarms import QUIET_MS, AlarmStore, EscalationRow, NewNotice, Pace, PolicyState, Waiting
from holdfast.stores.store import JobStore

_logger = logging.getLogger("holdfast")

_QUIET = timedelta(milliseconds=QUIET_MS)
_IN_A_DIGEST = 10_000


class EscalatedStore(AlarmStore, JobStore, Protocol):
    """What escalations need of a store."""


class _Look(NamedTuple):
    """What one round has seen: the store's time, and the latest job of each escalation."""

    now: datetime
    jobs: dict[int, JobRow]

    def latest(self, row: EscalationRow) -> JobRow | None:
        """The latest job of an escalation, if it is still there."""
        return self.jobs.get(row.jobs[0]) if row.jobs else None


class EscalationsService:
    """Takes alarms from the inbox and lets escalations go on."""

    name: ClassVar[str] = "escalations"

    def __init__(self, store: EscalatedStore, settings: Settings) -> None:
        self._store = store
        self._policies = settings.escalations
        self._channels = settings.channels
        self._digests = [policy.name for policy in self._policies.values() if policy.digest_at is not None]
        self._is_known = False
        self._broken: set[int] = set()  # those of which the log was told

    async def run(self, batch: int) -> Round:
        """Take alarms and do what is due, at most so many of either."""
        if not self._is_known:
            await self._store.define_escalations(list(self._policies))
            self._is_known = True
        sources = {policy.name: tuple(policy.sources) for policy in self._policies.values()}
        taken = await self._store.fold_alarms(sources, batch)
        waiting = await self._store.waiting_escalations(list(self._policies), self._digests, batch)
        look = _Look(waiting.now, await self._jobs(waiting.escalations))
        moved = 0
        for row in waiting.escalations:
            if row.told_at is not None or row.acked_at is not None:
                moved += await self._alone(row, self._go_on(row, look))
        moved += await self._tell_new(waiting, look)
        if taken < batch:  # or what belongs into the digest may still lie in the inbox
            moved += await self._send_digests(waiting)
        return Round(scanned=taken + len(waiting.escalations), moved=taken + moved, has_more=taken >= batch)

    async def _alone(self, row: EscalationRow, step: Awaitable[bool]) -> bool:
        """Take a step; one that cannot be taken keeps no other from being taken."""
        try:
            return await step
        except StoreError as error:
            if not isinstance(error, DataRefused):
                raise
            self._tell_broken(row, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this one
            self._tell_broken(row, error)
        return False

    def _tell_broken(self, row: EscalationRow, error: Exception) -> None:
        if row.id not in self._broken:
            self._broken.add(row.id)
            _logger.error("escalation %d cannot be told of: %s: %s", row.id, type(error).__name__, error)

    async def _jobs(self, rows: Sequence[EscalationRow]) -> dict[int, JobRow]:
        """Read the latest job of each escalation, for what messages say of it."""
        ids = sorted({row.jobs[0] for row in rows if row.jobs})
        return {job.id: job for job in await self._store.get_jobs(ids)} if ids else {}

    # ---- those that nobody was told of -----------------------------------------------------------------------------

    async def _tell_new(self, waiting: Waiting, look: _Look) -> int:
        states = {state.name: state for state in waiting.policies}
        by_policy: dict[str, list[EscalationRow]] = {}
        for row in waiting.escalations:
            if row.told_at is None and row.acked_at is None:
                by_policy.setdefault(self._in_charge(row).name, []).append(row)
        moved = 0
        for name, rows in by_policy.items():
            policy = self._policies[name]
            room = _room(policy, states.get(name), waiting.now)
            alone = len(rows) if len(rows) <= room else max(room - 1, 0)
            for row in rows[:alone]:
                moved += await self._alone(row, self._tell(row, policy, look, "trigger"))
            if rows[alone:] and room:
                moved += await self._tell_rest(rows[alone:], policy, look)
        return moved

    async def _tell(
        self,
        row: EscalationRow,
        policy: Escalation,
        look: _Look,
        event: str,
        why: str | None = None,
    ) -> bool:
        """Let a policy speak of an escalation now, and start its clock."""
        said = row.said + 1 if row.stage == policy.name else 1
        after = msgspec.structs.replace(
            row, stage=policy.name, told_at=look.now, said=said, due_at=_due(policy, look.now), snoozed_until=None
        )
        facts = facts_of(row, policy, look.latest(row), why=why)
        return await self._store.move_escalation(row, after, _notices(row, policy, event, facts), _pace(policy))

    async def _tell_rest(self, rows: Sequence[EscalationRow], policy: Escalation, look: _Look) -> int:
        """Tell of all that the rate does not let through one by one."""
        message = together(rows, policy, look.jobs, look.now, None)
        notices = _notices(None, policy, "rest", message)
        done = await self._store.tell_together(rows, notices, due_at=_due(policy, look.now), pace=_pace(policy))
        return len(rows) if done else 0

    # ---- those that somebody was told of ---------------------------------------------------------------------------

    async def _go_on(self, row: EscalationRow, look: _Look) -> bool:
        if row.acked_at is not None:
            return await self._answered(row, look)
        if row.snoozed_until is not None:
            return await self._wake(row, look)
        if row.due_at is not None:
            return await self._unanswered(row, look)
        return await self._close(row, look)

    async def _answered(self, row: EscalationRow, look: _Look) -> bool:
        """Tell pagers that somebody has answered; and that it is over, once it has been quiet."""
        if row.ack_told_at is not None:
            after = msgspec.structs.replace(row, resolved_at=look.now)
            return await self._store.move_escalation(row, after, self._to_pagers(row, look, "resolve", _AFTER_QUIET))
        why = f"acknowledged by {row.acked_by or 'somebody'}" + (f": {row.note}" if row.note else "")
        was_told = row.told_at is not None
        after = msgspec.structs.replace(row, ack_told_at=look.now, resolved_at=None if was_told else look.now)
        notices = self._to_pagers(row, look, "acknowledge", why) if was_told else []
        return await self._store.move_escalation(row, after, notices)

    async def _wake(self, row: EscalationRow, look: _Look) -> bool:
        """Go on after a snooze: what has become quiet is over, everything else is told again."""
        if row.last_at <= look.now - _QUIET:
            return await self._close(row, look)
        policy = self._in_charge(row)
        if policy.digest_at is not None:
            return await self._store.move_escalation(row, msgspec.structs.replace(row, snoozed_until=None), [])
        why = f"it was snoozed by {row.snoozed_by or 'somebody'}, and goes on"
        return await self._tell(row, policy, look, "again", why)

    async def _unanswered(self, row: EscalationRow, look: _Look) -> bool:
        """Say it again, or let the next policy say it, when nobody has answered in time."""
        policy = self._in_charge(row)
        why = f"nobody has answered within {_length(policy)}"
        if policy.digest_at is None and row.said <= policy.repeat:
            return await self._tell(row, policy, look, "again", why)
        if policy.then is None:
            return await self._store.move_escalation(row, msgspec.structs.replace(row, due_at=None), [])
        following = self._policies[policy.then]
        if following.digest_at is None:
            return await self._tell(row, following, look, "again", f"{why} ({policy.name})")
        after = msgspec.structs.replace(row, stage=following.name, told_at=None, said=0, due_at=None)
        return await self._store.move_escalation(row, after, [])

    async def _close(self, row: EscalationRow, look: _Look) -> bool:
        after = msgspec.structs.replace(row, closed_at=look.now, resolved_at=look.now, due_at=None, snoozed_until=None)
        return await self._store.move_escalation(row, after, self._to_pagers(row, look, "resolve", _AFTER_QUIET))

    def _to_pagers(self, row: EscalationRow, look: _Look, event: str, why: str) -> list[NewNotice]:
        """Write messages for channels that keep a state of their own; people in a chat need no second one."""
        notices: dict[str, NewNotice] = {}
        for policy in self._chain(row):
            facts = facts_of(row, policy, look.latest(row), why=why)
            for notice in _notices(row, policy, event, facts):
                if isinstance(self._channels[notice.channel], PagerDuty | SignedWebhook):
                    notices.setdefault(notice.channel, notice)
        return list(notices.values())

    def _in_charge(self, row: EscalationRow) -> Escalation:
        """The policy that speaks now; the first one if that was taken out of the settings meanwhile."""
        return self._policies.get(row.stage) or self._policies[row.policy]

    def _chain(self, row: EscalationRow) -> list[Escalation]:
        """The policies that have spoken, from the first to the one in charge."""
        found = [self._policies[row.policy]]
        while found[-1].name != row.stage and found[-1].then is not None:
            found.append(self._policies[found[-1].then])
        return found

    # ---- digests ---------------------------------------------------------------------------------------------------

    async def _send_digests(self, waiting: Waiting) -> int:
        moved = 0
        for state in waiting.policies:
            policy = self._policies[state.name]
            due = None if policy.digest_at is None else latest_digest(policy.digest_at, policy.tz, waiting.now)
            if due is not None and due > state.digested_at:
                moved += await self._send_digest(policy, state.digested_at, due, waiting.now)
        return moved

    async def _send_digest(self, policy: Escalation, since: datetime, due: datetime, now: datetime) -> int:
        """Tell of everything since the last digest; a day without anything passes in silence."""
        rows = await self._store.undigested(policy.name, _IN_A_DIGEST)
        message = together(rows, policy, await self._jobs(rows), now, since)
        notices = _notices(None, policy, "digest", message) if rows else []
        done = await self._store.tell_together(rows, notices, due_at=_due(policy, now), digest=(policy.name, due))
        return len(rows) if done else 0


_AFTER_QUIET = "it has been quiet for an hour"


def _notices(row: EscalationRow | None, policy: Escalation, event: str, message: Facts | Together) -> list[NewNotice]:
    data = msgspec.json.encode(message).decode()
    escalation = None if row is None else row.id
    return [NewNotice(escalation, policy.name, channel, event, data) for channel in policy.channels]


def _pace(policy: Escalation) -> Pace:
    return Pace(policy.name, policy.most.spacing_us, policy.most.times)


def _room(policy: Escalation, state: PolicyState | None, now: datetime) -> int:
    """How many messages the rate lets through now."""
    times, spacing = policy.most.times, timedelta(microseconds=policy.most.spacing_us)
    if state is None or state.rated_until is None or state.rated_until <= now:
        return times
    used = -((now - state.rated_until) // spacing)  # rounded up: a part of a message is a message
    return max(times - used, 0)


def _length(policy: Escalation) -> str:
    """Say how long a policy waits for an answer, in the largest units that fit."""
    left, parts = (policy.respond_ms or 0) // 1_000, []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if left >= seconds:
            parts.append(f"{left // seconds} {unit}")
            left %= seconds
    hours = " of business hours" if policy.business_hours is not None else ""
    return (" ".join(parts) or "no time at all") + hours


def _due(policy: Escalation, now: datetime) -> datetime | None:
    if policy.respond_ms is None:
        return None
    hours = None if policy.business_hours is None else policy.business_hours.hours
    return answer_by(now, timedelta(milliseconds=policy.respond_ms), hours)
