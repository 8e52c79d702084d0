"""How much of the disk a store takes, by table and index."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from benchmarks.scale.place import Place, fetch

# What lies in partitions counts for their parent.
_POSTGRES = """
SELECT parent.relname AS name, sum(pg_relation_size(part.relid))::bigint AS bytes
FROM pg_class AS parent
CROSS JOIN LATERAL (
    SELECT tree.relid FROM pg_partition_tree(parent.oid) AS tree
    UNION
    SELECT parent.oid WHERE parent.relkind IN ('r', 'i')
) AS part
WHERE parent.relnamespace = $1::text::regnamespace AND parent.relkind IN ('r', 'p', 'i', 'I')
    AND NOT parent.relispartition
GROUP BY parent.relname
HAVING sum(pg_relation_size(part.relid)) > 0
ORDER BY 2 DESC
LIMIT 8
"""
_SQLITE = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 8"


def extents(place: Place) -> list[tuple[str, float]]:
    """Give the largest tables and indexes, in megabytes."""
    if place.is_postgres:
        found = asyncio.run(fetch(place, _POSTGRES, place.schema))
        return [(name, size / 1e6) for name, size in found]
    path = Path(place.url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path)) as database:
        try:
            return [(name, size / 1e6) for name, size in database.execute(_SQLITE)]
        except sqlite3.OperationalError:  # a library that was built without dbstat
            return [("the whole file", path.stat().st_size / 1e6)]
