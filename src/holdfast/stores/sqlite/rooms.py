"""Free slots of limits while one claim is made, on SQLite: looked for once a key, and taken together at its end."""

import sqlite3
from dataclasses import dataclass, field

from holdfast.stores.sqlite import statements


@dataclass
class _Room:
    """What is left of one key: how many jobs may still enter, the slots they get, and the last one ever made."""

    left: int
    places: list[int] = field(default_factory=list)  # the first one last
    last: int = 0


class Rooms:
    """The keys that a claim has come across; nobody else changes them while its transaction lasts."""

    def __init__(self, connection: sqlite3.Connection, jobs: int) -> None:
        self._connection = connection
        self._jobs = jobs
        self._rooms: dict[tuple[str, str], _Room] = {}
        self._entered: list[dict[str, object]] = []

    def has(self, name: str, key: str, most: int) -> bool:
        """Whether one more job of a key may run."""
        room = self._rooms.get((name, key))
        if room is None:
            room = self._rooms[name, key] = self._look(name, key, most)
        return room.left > 0

    def enter(self, name: str, key: str, job_id: int, claim: int) -> None:
        """Let a job have the next slot of a key that has one."""
        room = self._rooms[name, key]
        room.left -= 1
        if not room.places:
            room.last += 1
            room.places.append(room.last)
        self._entered.append({"name": name, "key": key, "n": room.places.pop(), "job_id": job_id, "claim": claim})

    def take(self, worker: int, now: int) -> None:
        """Write down who has entered."""
        statements.change_many(
            self._connection, "take_slots", [entered | {"worker": worker, "now": now} for entered in self._entered]
        )

    def _look(self, name: str, key: str, most: int) -> _Room:
        left = most - int(statements.fetch_value(self._connection, "count_slots", name=name, key=key))
        if left < 1:
            return _Room(0)
        found = statements.fetch(self._connection, "free_places", name=name, key=key, limit=min(left, self._jobs))
        *places, last = (n for (n,) in found)
        return _Room(left, places[::-1], last)
