"""What is measured all the time reads indexes, on SQLite too."""

import sqlite3
from pathlib import Path

import pytest

from holdfast.stores.sqlite.statements import QUERIES
from holdfast.stores.sqlite.store import SqliteStore

GIVEN = {"cap": 10_001, "now": 0, "span_s": 1, "wider_s": 60, "until": 0, "limit": 10, "queues": "[]"}
GIVEN |= {"queue": "q", "priority": 5, "position": 1, "most": 10, "name": "a", "key": "b"}


@pytest.mark.parametrize(
    "query, tables",
    [
        ("measure_lanes", ("holdfast_jobs", "job")),
        ("fold_rollups", ("rollup",)),
        ("lane_heads", ("holdfast_jobs", "job")),
        ("read_waits", ("holdfast_jobs", "job")),
        ("why_ahead", ("holdfast_jobs", "job")),
        ("why_limit", ("holdfast_jobs", "job")),
    ],
)
async def test_a_query_reads_its_table_by_indexes(tmp_path: Path, query: str, tables: tuple[str, ...]) -> None:
    await SqliteStore(str(tmp_path / "jobs.db")).migrator.up()
    database = sqlite3.connect(tmp_path / "jobs.db")
    steps = [row[3] for sql in QUERIES[query] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", GIVEN)]
    database.close()
    reads = [step for step in steps if step.split()[0] in ("SCAN", "SEARCH") and step.split()[1] in tables]
    assert reads
    assert [step for step in reads if " INDEX " not in step] == []
    assert not any("TEMP B-TREE FOR ORDER BY" in step for step in steps) or query == "fold_rollups"


async def test_of_the_keys_of_limits_only_those_used_last_are_read(tmp_path: Path) -> None:
    await SqliteStore(str(tmp_path / "jobs.db")).migrator.up()
    database = sqlite3.connect(tmp_path / "jobs.db")
    (sql,) = QUERIES["limit_buckets"]
    steps = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", GIVEN)]
    database.close()
    assert sorted(step for step in steps if " holdfast_limit_keys" in step) == [
        "SCAN holdfast_limit_keys USING INDEX holdfast_limit_keys_seen",
        "SEARCH holdfast_limit_keys USING PRIMARY KEY (limit_name=? AND key=?)",
    ]
