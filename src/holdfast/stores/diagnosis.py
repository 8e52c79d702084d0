"""What a store tells about itself, for `holdfast doctor` and the page that shows its state."""

from datetime import datetime, timedelta

import msgspec


class Holder(msgspec.Struct, frozen=True):
    """What keeps the database from removing dead rows: a "transaction", a "prepared" one, or a "slot" of replication.

    `name` is a process, an identifier or a slot; `xids` is how many transactions have begun since.
    """

    what: str
    name: str
    user: str | None
    application: str | None
    state: str | None
    age: timedelta | None
    xids: int
    query: str | None


class Diagnosis(msgspec.Struct, frozen=True):
    """What a store tells about itself.

    `history_until` is where the prepared weeks of history end, if it has weeks, and `longest_kept` how far ahead of now
    they are needed. `holders` names the oldest of each sort. `is_pooled` tells of a pooler in front of the database.
    `size` is how many bytes a database in one file has, and `free` how many of them nothing uses.
    """

    software: str
    version: tuple[int, ...]
    now: datetime
    history_until: datetime | None
    longest_kept: timedelta = timedelta()
    holders: tuple[Holder, ...] = ()
    is_pooled: bool = False
    size: int | None = None
    free: int | None = None


class TableSize(msgspec.Struct, frozen=True):
    """How many rows a table has, at most 10,001 of them counted, and how old the oldest of those is.

    `size` is how many bytes it takes with its indexes, where the database can tell within a moment.
    """

    name: str
    rows: int
    oldest: datetime | None
    size: int | None = None
