"""Programs that enqueue in bulk on PostgreSQL are killed: each bulk is there as a whole or not at all."""

import random
import uuid
from pathlib import Path

import asyncpg
import pytest

from holdfast.stores.postgres.store import PostgresStore
from tests.faults.store.ledgers import Acknowledged, assert_all_kept, killed
from tests.faults.store.writer import Run
from tests.support.figures import show
from tests.support.programs import Program
from tests.support.sizes import size

pytestmark = pytest.mark.real_time

KILLS = size(10, 100)

HALF_STORED = """
SELECT args ->> 'batch', count(*) FROM {schema}.all_jobs
WHERE (args ->> 'count')::int > 1
GROUP BY args ->> 'batch', (args ->> 'count')::int
HAVING count(*) <> (args ->> 'count')::int
"""


async def test_a_bulk_is_stored_as_a_whole(postgres: PostgresStore, dsn: str, schema: str, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance, acknowledged = random.Random(seed), 0
    other = await asyncpg.connect(dsn)
    with Program("tests.faults.store.writer") as program:
        for number in range(KILLS):
            ledger = tmp_path / f"ledger-{number}-{uuid.uuid4().hex}"
            killed(program, Run(dsn, schema, str(ledger), seed + number, chance.uniform(1, 80), 500))
            # Statements of the dead may still run; whoever has this lock has waited for them.
            async with other.transaction():
                await other.execute(f"LOCK TABLE {schema}.jobs IN ACCESS EXCLUSIVE MODE")
                assert await other.fetch(HALF_STORED.format(schema=schema)) == [], f"seed {seed}"
            found = Acknowledged(ledger)
            acknowledged += len(found.stored)
            await assert_all_kept(postgres, found)
    await other.close()
    show(f"{KILLS} kills, {acknowledged} acknowledged jobs, none lost")
    assert acknowledged > 0, f"seed {seed}"
