"""A server, its store and the tables of it, as the HTTP API shows them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from holdfast.about import About
from holdfast.resources.examples import MOMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemInfo:
    """What this server is, and the store behind it."""

    release: Annotated[str, About("The release of Holdfast.", "0.7.0")]
    store: Annotated[str, About("The software of the store.", "PostgreSQL")]
    store_version: Annotated[str, About("The version of that software.", "18.4")]
    now: Annotated[datetime, About("The store's time.", MOMENT)]
    history_until: Annotated[datetime | None, About("Until when history is prepared.", "2026-12-07T00:00:00Z")]
    is_pooled: Annotated[bool, About("Whether a pooler stands before the database.", example=False)]
    size_bytes: Annotated[int | None, About("How large the file of SQLite is.", 1_048_576)]
    free_bytes: Annotated[int | None, About("How much of that file nothing uses.", 4_096)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """How many rows a table has, and how old the oldest is."""

    name: Annotated[str, About("The name of the table.", "history")]
    rows: Annotated[int, About("How many rows it has, at most 10,000 of them counted.", 10_000)]
    capped: Annotated[bool, About("Whether it may have more rows.", example=True)]
    oldest: Annotated[datetime | None, About("When the oldest row was written.", "2026-11-09T09:30:00Z")]
    size_bytes: Annotated[int | None, About("What it takes with its indexes; null in a large file of SQLite.", 81_920)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableList:
    """The tables of the store."""

    tables: list[TableInfo]
