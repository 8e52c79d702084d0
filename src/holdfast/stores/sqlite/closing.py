"""Closing a store whose jobs move away: by triggers, so that whoever writes meets them and nobody pays before.

They speak in every connection of every program, those of older releases and those of applications too. A trigger can
say only a fixed text, so that the words of the move are part of it.
"""

import sqlite3

import msgspec

from holdfast.stores.moving import CLOSED_TABLES, Move, Stage
from holdfast.stores.sqlite import errors, statements

_PREFIX = "holdfast_moving_"
_CLAIMS = f"""
CREATE TRIGGER {_PREFIX}claims BEFORE UPDATE OF state ON holdfast_jobs
WHEN NEW.state = 'running' AND OLD.state <> 'running'
BEGIN
    SELECT RAISE(IGNORE);
END
"""


def close(database: sqlite3.Connection, move: Move) -> bool | None:
    """Mark the store and let changes be refused; False while a job runs, None when the mark does not follow."""
    marked = statements.fetch_value(database, "read_move")
    if not _may_follow(None if marked is None else msgspec.json.decode(marked, type=Move), move):
        return None
    if move.stage is Stage.CLOSED and _runs(database):
        return False
    _drop_triggers(database)
    if move.stage is Stage.DRAINING:
        database.execute(_CLAIMS)  # a claim takes nothing, while those that run may still end
        refused = [("jobs", "INSERT"), ("workers", "INSERT")]
    else:
        refused = [(table, verb) for table in CLOSED_TABLES for verb in ("INSERT", "UPDATE", "DELETE")]
        refused += [("workers", "INSERT"), ("workers", "UPDATE")]
    words = (errors.MOVED + move.words).replace("'", "''")
    for table, verb in refused:
        database.execute(
            f"CREATE TRIGGER {_PREFIX}{table}_{verb.lower()} BEFORE {verb} ON holdfast_{table} "
            f"FOR EACH ROW BEGIN SELECT RAISE(ABORT, '{words}'); END"
        )
    statements.change(database, "keep_note", key="move", value=msgspec.json.encode(move).decode())
    return True


def _may_follow(marked: Move | None, move: Move) -> bool:
    """Whether a mark is of the same move and not behind the one that is there; a move begins with the first stage."""
    if marked is None:
        return move.stage is Stage.DRAINING
    stages = list(Stage)
    return marked.id == move.id and stages.index(marked.stage) <= stages.index(move.stage)


def reopen(database: sqlite3.Connection) -> None:
    """Forget the mark, and let changes be made again."""
    _drop_triggers(database)
    statements.change(database, "forget_note", key="move")


def _runs(database: sqlite3.Connection) -> bool:
    return bool(database.execute("SELECT EXISTS (SELECT 1 FROM holdfast_jobs WHERE state = 'running')").fetchone()[0])


def _drop_triggers(database: sqlite3.Connection) -> None:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in found:
        if name.startswith(_PREFIX):
            database.execute(f"DROP TRIGGER {name}")
