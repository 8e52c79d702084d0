"""Slots of limits within one transaction, on SQLite: looked for once a key, and written together.

What claims leave that end may go straight to those that are made in the same transaction.
"""

import sqlite3
from dataclasses import dataclass, field

from holdfast.stores.sqlite import statements

Key = tuple[str, str]  # the name of a limit, and a key of it


@dataclass
class Freed:
    """What ended claims have left: slots that are handed on, and the queues of jobs that were held and may run now."""

    hands_over: bool = False
    places: dict[Key, list[int]] = field(default_factory=dict)
    queues: set[str] = field(default_factory=set)


@dataclass
class _Room:
    """What is left of one key: how many jobs may still enter, which slots they get, and the last one ever made."""

    left: int
    handed: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # the first one last
    last: int = 0

    def next_place(self) -> int:
        """Give a job its slot."""
        self.left -= 1
        if self.handed:
            return self.handed.pop()
        if self.places:
            return self.places.pop()
        self.last += 1
        return self.last


class Rooms:
    """The keys that a claim has come across; nobody else changes them while its transaction lasts."""

    def __init__(self, connection: sqlite3.Connection, jobs: int, freed: Freed) -> None:
        self._connection = connection
        self._jobs = jobs
        self._freed = freed
        self._rooms: dict[Key, _Room] = {}
        self._entered: list[tuple[str, str, int, int, int]] = []

    def has(self, name: str, key: str, most: int) -> bool:
        """Whether one more job of a key may run."""
        room = self._rooms.get((name, key))
        if room is None:
            room = self._rooms[name, key] = self._look(name, key, most)
        return room.left > 0

    def enter(self, name: str, key: str, job_id: int, claim: int) -> None:
        """Let a job have the next slot of a key that has one."""
        self._entered.append((name, key, self._rooms[name, key].next_place(), job_id, claim))

    def take(self, worker: int, now: int) -> None:
        """Write down who has entered; what was handed over and not used may still be."""
        entered = [
            {"name": name, "key": key, "n": n, "job_id": job_id, "claim": claim, "worker": worker, "now": now}
            for name, key, n, job_id, claim in self._entered
        ]
        statements.change_many(self._connection, "take_slots", entered)
        self._freed.places.update((key, room.handed) for key, room in self._rooms.items() if room.handed)

    def _look(self, name: str, key: str, most: int) -> _Room:
        handed = self._freed.places.pop((name, key), [])
        held = int(statements.fetch_value(self._connection, "count_slots", name=name, key=key))
        left = most - held + len(handed)
        wanted = min(left, self._jobs) - len(handed)
        if wanted < 1:
            return _Room(left, handed)
        found = statements.fetch(self._connection, "free_places", name=name, key=key, limit=wanted)
        *places, last = (n for (n,) in found)
        return _Room(left, handed, places[::-1], last)
