"""The keeper of locks: it asks for them, renews all of them together, and stops bodies whose lock is lost.

A lock is a row, and so is a ticket of one who waits: no connection is held meanwhile. Of those who wait here for the
same lock only the first asks again, woken by a hint or after a second; one call a second keeps the tickets of all.
"""

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Any

import msgspec

from holdfast import moments
from holdfast.client.repeat import pauses
from holdfast.delivery.delivery import Delivery
from holdfast.errors import HoldfastError, LockCycle, LockTimeout, NotOpen, OutcomeUnknown, StoreUnavailable
from holdfast.lock import Lock
from holdfast.stores.cluster import LockAnswer, LockRequest, LockStore

_logger = logging.getLogger("holdfast")

LOCK_HINT = "!lock"
"""Takes the place of a queue's name in a hint that a lock was released; no queue can be called so."""

_RENEWALS = 3  # within the time that a lock lasts
_MARGIN = 5  # a fifth of that time is kept back: a body stops before others may begin
_SELDOM = 5  # rounds in which one asks again who is not the first here
_FAREWELL_S = 5.0
_GIVING_UP_S = 1.0


class Whose(msgspec.Struct, frozen=True):
    """The claim that a lock is for, if it is for one."""

    worker: int | None = None
    job_id: int | None = None
    claim: int | None = None


NOBODY = Whose()


class Held:
    """A lock that is held here, and the task that runs its body; a body in a thread has none."""

    def __init__(
        self, request: LockRequest, lock: Lock, body: "asyncio.Task[Any] | None", trusted_until: float
    ) -> None:
        self.request = request
        self.lock = lock
        self.body = body
        self.trusted_until = trusted_until  # by the monotonic clock

    def lose(self, why: str) -> None:
        """Stop the body: others may hold the lock now or soon."""
        if not self.lock.is_lost:
            self.lock.is_lost = True
            _logger.error("the lock %s was lost (%s): its body is stopped", self.lock.name, why)
            if self.body is not None:
                self.body.cancel()


class _Waiter:
    """One who waits for a lock."""

    def __init__(self, request: LockRequest) -> None:
        self.request = request
        self.ticket: int | None = None
        self.asking: asyncio.Task[LockAnswer] | None = None
        self.asked_at = 0.0  # when that question was sent; its answer may come in a later round
        self.was_releasing = False  # when it last asked: the store may not have known that yet
        self.failure: HoldfastError | None = None
        self._woken = asyncio.Event()

    @property
    def turn(self) -> float:
        """The order in which those who wait are served."""
        return float("inf") if self.ticket is None else self.ticket

    def wake(self) -> None:
        """Let it ask again."""
        self._woken.set()

    async def woken_within(self, seconds: float) -> bool:
        """Wait until it is woken, or for a while."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True


class LockKeeper:
    """The locks of one event loop, on one store."""

    lasts_s = 30.0
    """How long a lock outlives the last renewal, when its process vanishes."""
    ticket_s = 5.0
    """How long others wait for one who stands before them, when that process vanishes."""
    poll_s = 1.0
    idle_s = 10.0

    def __init__(
        self, store: LockStore, delivery: Delivery, *, patience_s: float | None = None, listens: bool = True
    ) -> None:
        self._store = store
        self._delivery = delivery
        self._patience_s = patience_s  # with a store that does not answer; None: as long as the job may
        self._listens = listens  # or somebody else calls `look`
        self._place = f"{socket.gethostname()}/{os.getpid()}"
        self._held: set[Held] = set()
        self._waiting: dict[str, list[_Waiter]] = {}
        self._releasing: dict[str, str] = {}  # contexts, by the owners of what the store may not know to be released
        self._background: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._renewed_at = 0.0
        self._is_closed = False

    def look(self) -> None:
        """Let the first who waits for each lock ask again: one was released."""
        for name in self._waiting:
            self._wake_first(name)

    async def take(
        self,
        name: str,
        whose: Whose,
        context: str,
        *,
        body: "asyncio.Task[Any] | None",
        timeout_s: float | None = None,
        is_stopped: Callable[[], bool] = bool,
    ) -> Held:
        """Wait for a lock and take it; `is_stopped` ends the wait of one who cannot be cancelled."""
        self._require_open()
        waiter = _Waiter(LockRequest(name, uuid.uuid4().hex, context, self._place, **msgspec.structs.asdict(whose)))
        self._waiting.setdefault(name, []).append(waiter)
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve(), name="holdfast locks")
        try:
            lock, trusted_until = await self._taken(waiter, timeout_s, is_stopped)
        except BaseException as error:
            self._releasing[waiter.request.owner] = context
            giving_up = self._run(lambda: self._give_up(waiter))
            if isinstance(error, Exception):  # who is cancelled is kept from nothing
                await asyncio.wait({giving_up}, timeout=_GIVING_UP_S)
            raise
        finally:
            self._leave(waiter)
        if not self._held:
            self._renewed_at = time.monotonic()
        held = Held(waiter.request, lock, body, trusted_until)
        self._held.add(held)
        return held

    async def release(self, held: Held) -> None:
        """Let go of a lock; while the store is away that goes on behind this call."""
        self._held.discard(held)
        self._releasing[held.request.owner] = held.request.context
        letting_go = self._run(lambda: self._let_go(held.request))
        if not held.lock.is_lost:  # or there is nothing to wait for
            await asyncio.wait({letting_go}, timeout=_FAREWELL_S)

    def free(self, job_id: int, claim: int) -> None:
        """Let go of what a handler held whose process is gone, so that nobody waits until its time has passed."""
        self._run(lambda: self._free(job_id, claim))

    async def _free(self, job_id: int, claim: int) -> None:
        if await self._store.free_locks(job_id, claim):
            self.look()
            self._delivery.hint([LOCK_HINT])

    async def close(self) -> None:
        """End every wait, stop every body, and let the last releases go out, at most for a moment."""
        self._is_closed = True
        for held in list(self._held):
            held.lose("the app is closed")
        for waiter in chain.from_iterable(self._waiting.values()):
            waiter.wake()
        tasks = [task for task in (self._serving, self._listening, self._renewing, self._keeping) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._background:
            await asyncio.wait(self._background, timeout=_GIVING_UP_S)

    # ---- waiting ---------------------------------------------------------------------------------------------------

    async def _taken(
        self, waiter: _Waiter, timeout_s: float | None, is_stopped: Callable[[], bool]
    ) -> tuple[Lock, float]:
        began = answered_at = time.monotonic()
        rounds = 0
        while True:
            self._require_open()
            # The first question is answered even if there is no time: who asks with timeout=0 wants it if it is free.
            left = None if timeout_s is None or not rounds else max(began + timeout_s - time.monotonic(), 0)
            answer = await self._asked(waiter, left)
            if answer is not None:
                answered_at = time.monotonic()
                if answer.token is not None and answer.since is not None:
                    trusted_from = waiter.asked_at  # guard: lock-from-asking, without: trusted_from = answered_at
                    return Lock(waiter.request.name, answer.token, answer.since), trusted_from + self._trust_s
                # Who waits only for what it has let go of itself waits for nobody.
                if answer.is_cycle and not (waiter.was_releasing or self._is_releasing(waiter)):
                    raise LockCycle(_cycle(waiter.request.name))
            self._be_patient(waiter, answered_at)
            while True:
                rounds += 1
                left = None if timeout_s is None else began + timeout_s - time.monotonic()
                if left is not None and left <= 0:
                    raise LockTimeout(_late(waiter.request.name, timeout_s))
                is_woken = await waiter.woken_within(self.poll_s if left is None else min(self.poll_s, left))
                if is_stopped():
                    raise asyncio.CancelledError
                if is_woken or self._first(waiter.request.name) is waiter or rounds % _SELDOM == 1:
                    break

    async def _asked(self, waiter: _Waiter, left: float | None) -> LockAnswer | None:
        """Ask once; a question is not cancelled with the one who asks, or nobody would know what became of it."""
        if waiter.asking is None:
            lasts_ms, waits_ms = round(self.lasts_s * 1_000), round(self.ticket_s * 1_000)
            waiter.was_releasing = self._is_releasing(waiter)
            waiter.asked_at = time.monotonic()
            asking = self._store.take_lock(waiter.request, lasts_ms=lasts_ms, waits_ms=waits_ms)
            waiter.asking = asyncio.create_task(asking, name="holdfast takes a lock")
        await asyncio.wait({waiter.asking}, timeout=left)
        if not waiter.asking.done():
            return None
        asked, waiter.asking = waiter.asking, None
        try:
            answer = asked.result()
        except (StoreUnavailable, OutcomeUnknown) as error:
            waiter.failure = error
            return None
        waiter.ticket, waiter.failure = answer.ticket, None
        if waiter.ticket is not None and self._listens and _is_over(self._listening):
            self._listening = asyncio.create_task(self._listen(), name="holdfast locks listen")
        return answer

    def _be_patient(self, waiter: _Waiter, answered_at: float) -> None:
        is_out_of_patience = self._patience_s is not None and time.monotonic() - answered_at > self._patience_s
        if waiter.failure is not None and is_out_of_patience:
            raise waiter.failure

    def _is_releasing(self, waiter: _Waiter) -> bool:
        return waiter.request.context in self._releasing.values()

    def _first(self, name: str) -> _Waiter | None:
        return min(self._waiting.get(name, ()), key=lambda waiter: waiter.turn, default=None)

    def _wake_first(self, name: str) -> None:
        if (first := self._first(name)) is not None:
            first.wake()

    def _leave(self, waiter: _Waiter) -> None:
        name = waiter.request.name
        self._waiting[name].remove(waiter)
        if self._waiting[name]:
            self._wake_first(name)
        else:
            del self._waiting[name]

    async def _give_up(self, waiter: _Waiter) -> None:
        """Take a ticket back, or the lock itself if it was given in that very moment."""
        if waiter.asking is not None:
            await asyncio.gather(waiter.asking, return_exceptions=True)  # no task waits for its answer any more
        await self._let_go(waiter.request)

    async def _let_go(self, request: LockRequest) -> None:
        try:
            has_others = await self._released(request)
        finally:
            self._releasing.pop(request.owner, None)
        self._wake_first(request.name)
        if has_others:
            self._delivery.hint([LOCK_HINT])

    async def _released(self, request: LockRequest) -> bool:
        """Release until the store answers; after the time of the lock nobody needs that any more."""
        ends_at = time.monotonic() + self.lasts_s
        waits = pauses()
        while True:
            try:
                return await self._store.release_lock(request.name, request.owner)
            except (StoreUnavailable, OutcomeUnknown) as error:
                if self._is_closed or time.monotonic() > ends_at:
                    _logger.warning("the lock %s could not be released, it ends by itself: %s", request.name, error)
                    return False
            await anext(waits)

    # ---- keeping ---------------------------------------------------------------------------------------------------

    @property
    def _trust_s(self) -> float:
        """For how long a renewal is trusted, counted from when it was sent; the store counts from when it came in."""
        return self.lasts_s - self.lasts_s / _MARGIN

    async def _serve(self) -> None:
        """Keep what is held and waited for; ends when there was nothing for a while."""
        tick_s = min(self.poll_s, self.lasts_s / _MARGIN / 2)
        idle_at = time.monotonic()
        try:
            while True:
                self._look_after(time.monotonic())
                if self._held or self._waiting:
                    idle_at = time.monotonic()
                elif time.monotonic() - idle_at > self.idle_s:
                    return
                await asyncio.sleep(tick_s)
        finally:
            # No await lies between the last look and this line, so nobody is left without.
            self._serving = None
            if self._listening is not None:
                self._listening.cancel()
                self._listening = None

    def _look_after(self, now: float) -> None:
        for held in list(self._held):
            if now > held.trusted_until:
                held.lose("it could not be renewed in time")
        if self._held and _is_over(self._renewing) and now - self._renewed_at >= self.lasts_s / _RENEWALS:
            self._renewing = self._run(self._renew)
        if self._waiting and _is_over(self._keeping):
            self._keeping = self._run(self._keep_tickets)

    async def _renew(self) -> None:
        sent, asked = time.monotonic(), {held.request.owner: held for held in self._held}
        kept = await self._store.renew_locks(list(asked), round(self.lasts_s * 1_000))
        self._renewed_at = sent
        for owner, held in asked.items():
            if owner in kept:
                held.trusted_until = sent + self._trust_s  # guard: lock-renewal, without: held.trusted_until += 99
            elif held in self._held:  # or it was released meanwhile
                held.lose("it belongs to somebody else, or to nobody")
        moments.reach("locks_renewed", locks=[held.lock.name for held in asked.values()])

    async def _keep_tickets(self) -> None:
        waiting = chain.from_iterable(self._waiting.values())
        asked = {waiter.request.owner: waiter for waiter in waiting if waiter.ticket is not None}
        if not asked:  # all of them are about to get their first answer
            return
        kept = await self._store.renew_tickets(list(asked), round(self.ticket_s * 1_000))
        for owner, waiter in asked.items():
            if owner not in kept and waiter.asking is None:
                waiter.wake()  # it was thought dead, and has to enter itself anew

    async def _listen(self) -> None:
        async with self._delivery.wakeups([LOCK_HINT], lambda _: self.look()):
            await asyncio.Event().wait()

    def _run(self, work: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
        async def logged() -> None:
            try:
                await work()
            except HoldfastError as error:
                _logger.debug("the keeper of locks tries again later: %s", error)
            except Exception:
                _logger.exception("the keeper of locks failed, and goes on")

        task = asyncio.create_task(logged(), name="holdfast locks")
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def _require_open(self) -> None:
        if self._is_closed:
            message = "locks: the app was closed; take locks inside `async with app:`"
            raise NotOpen(message)


def _is_over(task: "asyncio.Task[None] | None") -> bool:
    return task is None or task.done()


def _cycle(name: str) -> str:
    return (
        f"lock {name}: whoever holds it waits, directly or through others, for what is held here; a job is tried again"
        " at once. Take locks in the same order everywhere, and no lock twice"
    )


def _late(name: str, timeout_s: float | None) -> str:
    return (
        f"lock {name}: it was not free within {timeout_s:g} s; `holdfast locks list` shows who holds it. Without"
        " timeout= the wait has no limit"
    )
