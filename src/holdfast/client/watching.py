"""Hearing of everything that happens, across processes: one reader per app and process, and all who watch share it.

While nobody watches, nothing is read and nothing is written. A watch is registered in the store, so that every change
that is committed from then on writes its events; numbers that are skipped belong to changes that are not committed yet,
and are looked for again for a while.
"""

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.client.subscription import EventFilter, Numbered, Subscription
from holdfast.errors import HoldfastError, NotOpen
from holdfast.resources import job_rows
from holdfast.stores.store import EventStore
from holdfast.stores.values import Horizon

_logger = logging.getLogger("holdfast")

LASTS_S = 30.0
RENEWED_S = 10.0
LINGER_S = 15.0  # after the last watcher has left: one who was only cut off finds everything it missed
PATIENCE_S = 1.0
REMEMBERED = 10_000
_BATCH = 500
_FASTEST_S, _SLOWEST_S, _SLOWING = 0.02, 0.25, 1.5
_MISSING_S = 60.0  # that a change may take from its first statement to its commit
_LONGEST_NUMBER = 18
_MOST_MISSING = 10_000


class Watching:
    """The reader of one store, within one event loop."""

    def __init__(self, store: EventStore, *, linger_s: float = LINGER_S) -> None:
        self.epoch = ""  # names the numbers of this reader: it changes when any of them may be lost
        self._store = store
        self._linger_s = linger_s
        self._id = ""
        self._subscriptions: set[Subscription] = set()
        self._remembered: deque[Numbered] = deque(maxlen=REMEMBERED)
        self._number = 0
        self._last = 0
        self._missing: dict[int, float] = {}
        self._writing: tuple[str, ...] = ()  # changes that began before the watch, and will tell nobody
        self._renewed_at = 0.0
        self._empty_since: float | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._is_closed = False
        self._is_failing = False

    # ---- who watches -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def subscribe(self, wanted: EventFilter, *, after: str | None = None) -> AsyncIterator[Subscription]:
        """Hear of everything that is committed from here on; `after` is the id of the last event heard of before."""
        subscription = Subscription(wanted, self._leave)
        self._subscriptions.add(subscription)  # before anything is waited for, so that the reader does not leave
        self._empty_since = None
        try:
            await self._start()
            self._replay(subscription, after)
            yield subscription
        finally:
            subscription.close()

    @property
    def watchers(self) -> int:
        """How many watch here."""
        return len(self._subscriptions)

    @property
    def is_reading(self) -> bool:
        """Whether events are read for them, or a moment longer."""
        return self._reader is not None

    @property
    def number(self) -> int:
        """The number of the last event that was heard of."""
        return self._number

    def id_of(self, number: int) -> str:
        """Spell the id of an event; only the process that gave it can read it."""
        return f"{self.epoch}-{number}"

    async def close(self) -> None:
        """End every watch."""
        self._is_closed = True
        for subscription in list(self._subscriptions):
            subscription.close()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    def _leave(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        if not self._subscriptions:
            self._empty_since = time.monotonic()

    def _number_of(self, event_id: str) -> int | None:
        epoch, _, number = event_id.rpartition("-")
        is_number = number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER
        if epoch != self.epoch or not is_number or int(number) > self._number:
            return None
        oldest = self._remembered[0].number if self._remembered else self._number + 1
        return int(number) if int(number) >= oldest - 1 else None

    def _replay(self, subscription: Subscription, after: str | None) -> None:
        """Give what was missed since an event; no await lies between this and the next event that is heard."""
        number = None if after is None else self._number_of(after)
        if number is not None:
            for numbered in self._remembered:
                if numbered.number > number:
                    subscription.hear(numbered)
        elif after is not None:
            subscription.miss()

    # ---- reading ---------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        """Let events be written and read, and wait until none can be missed any more."""
        if self._is_closed:
            raise _closed()
        if self._reader is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._reader = asyncio.create_task(self._serve(), name="holdfast events")
        if self._ready is not None:
            await asyncio.shield(self._ready)

    async def _serve(self) -> None:
        ready, self._id = self._ready, uuid.uuid4().hex
        watcher = self._id
        try:
            await self._register()
            if ready is not None and not ready.done():
                ready.set_result(None)
            await self._read()
        except BaseException as error:
            if ready is not None and not ready.done():
                ready.set_exception(_closed() if isinstance(error, asyncio.CancelledError) else error)
                ready.exception()  # whoever waits for it gets it; if nobody does, that is no fault
                return
            raise
        finally:
            self._reader = None
            self._ready = None
            await self._unwatch(watcher)

    async def _register(self) -> None:
        begun_at = time.monotonic()
        await self._store.watch(self._id, round(LASTS_S * 1_000))
        horizon = await self._store.first_event(PATIENCE_S)
        self._begin(horizon)
        self._renewed_at = begun_at  # guard: watch-from-sending, without: self._renewed_at = time.monotonic()

    def _begin(self, horizon: Horizon) -> None:
        now = time.monotonic()
        self.epoch = uuid.uuid4().hex[:12]
        self._remembered.clear()
        # guard: drawn-event, without: self._last, self._missing = horizon.last, {}
        self._last, self._missing = horizon.last, dict.fromkeys(horizon.missing, now)
        self._writing = horizon.writing

    async def _read(self) -> None:
        pause = _FASTEST_S
        while not self._has_been_left():
            try:
                await self._renew()
                await self._settle()
                found = await self._look()
            except HoldfastError as error:
                _logger.debug("events could not be read, the next look tries again: %s", error)
                found = 0
            except Exception:
                # Whatever it is, those who watch must not wait for ever for a reader that is gone.
                if not self._is_failing:
                    _logger.exception("events could not be read, the next look tries again")
                self._is_failing, found = True, 0
            else:
                self._is_failing = False
            pause = _FASTEST_S if found else min(pause * _SLOWING, _SLOWEST_S)
            if found < _BATCH:
                await asyncio.sleep(pause)

    def _has_been_left(self) -> bool:
        return self._empty_since is not None and time.monotonic() - self._empty_since > self._linger_s

    async def _renew(self) -> None:
        if time.monotonic() - self._renewed_at < RENEWED_S:
            return
        begun_at = time.monotonic()
        await self._store.watch(self._id, round(LASTS_S * 1_000))
        # By the time of the answer: whenever the store got this, the watch had not ended before.
        is_late = time.monotonic() - self._renewed_at > LASTS_S
        if is_late:  # guard: late-watch
            # Events may not have been written for a while.
            await self._register()
            self._miss_all()
            return
        self._renewed_at = begun_at

    async def _settle(self) -> None:
        """Say that something may have been missed when a change ends that was older than the watch."""
        if self._writing:
            writing, self._writing = self._writing, await self._store.still_writing(self._writing)
            if len(self._writing) < len(writing):
                for subscription in list(self._subscriptions):
                    subscription.doubt()

    def _miss_all(self) -> None:
        for subscription in list(self._subscriptions):
            subscription.miss()

    async def _look(self) -> int:
        """Read what is new; the answer is how much."""
        now = time.monotonic()
        events = await self._store.read_events(self._last, list(self._missing), _BATCH)
        for event in events:
            if event.seq > self._last:
                for skipped in range(max(self._last + 1, event.seq - _MOST_MISSING), event.seq):
                    self._missing[skipped] = now  # guard: missing-event
                self._last = event.seq
            elif self._missing.pop(event.seq, None) is None:
                continue
            self._number += 1
            numbered = Numbered(self._number, job_rows.event(event))
            self._remembered.append(numbered)
            for subscription in list(self._subscriptions):
                subscription.hear(numbered)
        self._missing = {number: since for number, since in self._missing.items() if now - since < _MISSING_S}
        return len(events)

    async def _unwatch(self, watcher: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._store.unwatch(watcher)
        except (HoldfastError, TimeoutError) as error:
            _logger.debug("the watch ends by itself: %s", error)


def _closed() -> NotOpen:
    message = "the app was closed: nobody watches any more"
    return NotOpen(message)
