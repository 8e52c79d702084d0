"""What is compared is the meaning of a row: no spelling is a difference, and every other change is one."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.errors import Conflict
from holdfast.moving.comparing import differences
from holdfast.moving.move import Wishes, move
from holdfast.moving.sides import Side
from holdfast.stores.moving import JOBS, Row, Stage, Table
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from tests.move.filling import fill
from tests.move.test_move import quiet
from tests.support import raw

ROW: dict[str, Any] = {"id": 1, "kind": "work", "payload": '{"a": 1}', "run_at": 1_000_500, "error": None, "claim": 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"payload": '{"a":1}'},
        {"payload": '{"a": 1.0}'},
        {"payload": '{"a": 10e-1}'},
        {"run_at": 1_000_999},  # the same millisecond
    ],
)
def test_another_spelling_is_no_difference(changes: Row) -> None:
    assert differences(JOBS, [ROW], [{**ROW, **changes}]) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"payload": '{"a": "1"}'},
        {"payload": '{"a": 1.0000000000000000000000000000001}'},
        {"payload": '{"a": true}'},
        {"payload": '{"a": 1, "b": null}'},
        {"run_at": 1_001_500},
        {"kind": "Work"},
        {"error": ""},
        {"claim": 2},
    ],
)
def test_another_value_is_one(changes: Row) -> None:
    (line,) = differences(JOBS, [ROW], [{**ROW, **changes}])
    assert line == f"jobs 0000-0000-0001-95 differs in {next(iter(changes))}"


def test_what_is_missing_is_named() -> None:
    other = {**ROW, "id": 2}
    assert differences(JOBS, [ROW, other], [other]) == ["jobs 0000-0000-0001-95 is not there"]


@pytest.mark.guards("copied-differences")
@pytest.mark.parametrize("way", ["to-postgres", "to-sqlite"])
@pytest.mark.parametrize(
    "harm,said",
    [
        ("UPDATE holdfast.jobs SET payload = '{}' WHERE queue = 'ready'", "differs in payload"),
        ("DELETE FROM holdfast.jobs WHERE queue = 'later'", "is not there"),
        ("UPDATE holdfast.items SET note = 'other' WHERE key = 'b'", "differs in note"),
        ("UPDATE holdfast.history SET result = '[1]' WHERE queue = 'done'", "differs in result"),
    ],
)
async def test_a_target_that_was_harmed_is_found_out(
    postgres: PostgresStore, sqlite_file: SqliteStore, way: str, harm: str, said: str
) -> None:
    sides: tuple[Side, Side] = (sqlite_file, postgres) if way == "to-postgres" else (postgres, sqlite_file)
    source, target = sides
    await fill(source, 55)
    same = target.same_rows

    async def harmed(table: Table, rows: Sequence[Row]) -> list[Row]:
        target.same_rows = same  # type: ignore[method-assign] # once is enough
        await raw.execute(target, harm)
        return await same(table, rows)

    target.same_rows = harmed  # type: ignore[method-assign] # after the copy, before the comparison
    with pytest.raises(Conflict, match=said):
        await move(source, target, Wishes("there", with_history=True), quiet)
    mark = await source.read_move()
    assert mark is not None
    assert mark.stage is Stage.CLOSED
