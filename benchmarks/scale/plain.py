"""The plain way to claim, for contrast: ORDER BY id LIMIT n FOR UPDATE SKIP LOCKED, then a delete, in its own table.

`python -m benchmarks.scale.plain --batch 100` empties the table, writes each job into the ledger, and prints nothing
but a line of JSON.
"""

import argparse
import asyncio
import json
import os

from benchmarks.contestants.contestant import LEDGER
from benchmarks.contestants.ledger import Ledger
from benchmarks.scale.place import Place, connected, place_of_environment
from holdfast.stores.sql import in_schema

_TABLE = """
CREATE TABLE holdfast.plain (id bigint PRIMARY KEY, state text NOT NULL, payload jsonb NOT NULL);
CREATE INDEX plain_queued ON holdfast.plain (id) WHERE state = 'queued'
"""
_FILL = """
INSERT INTO holdfast.plain
SELECT n, 'queued', jsonb_build_object('number', n) FROM generate_series(0, $1::bigint - 1) AS n
"""
_CLAIM = """
UPDATE holdfast.plain SET state = 'running'
WHERE id IN (
    SELECT id FROM holdfast.plain WHERE state = 'queued' ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
)
RETURNING id
"""
_FINISH = "DELETE FROM holdfast.plain WHERE id = ANY ($1::bigint[])"


async def prepare(place: Place, jobs: int) -> None:
    """Make the table and fill it."""
    async with connected(place) as connection:
        await connection.execute(in_schema(_TABLE, place.schema))
        await connection.execute(in_schema(_FILL, place.schema), jobs)
        await connection.execute(in_schema("ANALYZE holdfast.plain", place.schema))


async def _drain(batch: int) -> int:
    place, ledger, jobs = place_of_environment(), Ledger(os.environ[LEDGER]), 0
    async with connected(place) as connection:
        while ids := [row[0] for row in await connection.fetch(in_schema(_CLAIM, place.schema), batch)]:
            await connection.execute(in_schema(_FINISH, place.schema), ids)
            for number in ids:
                ledger.record(number)
            jobs += len(ids)
    return jobs


def main() -> None:
    """Empty the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, required=True)
    print(json.dumps(asyncio.run(_drain(parser.parse_args().batch))), flush=True)


if __name__ == "__main__":
    main()
