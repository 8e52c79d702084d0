"""Holdfast on PostgreSQL."""

import asyncpg

from benchmarks.contestants.contestant import main
from benchmarks.contestants.holdfast_contestant import HoldfastContestant
from holdfast.stores.postgres.store import PostgresStore


class HoldfastOnPostgres(HoldfastContestant):
    """Jobs in the schema `holdfast`."""

    store = "postgres"

    async def prepare(self) -> None:
        """Make the schema anew."""
        connection = await asyncpg.connect(self.url)
        await connection.execute("DROP SCHEMA IF EXISTS holdfast CASCADE")
        await connection.close()
        await PostgresStore(self.url, schema="holdfast").migrator.up()

    async def open(self) -> None:
        """Open the app, and beside it a connection to look with."""
        await super().open()
        self._looking = await asyncpg.connect(self.url)

    async def close(self) -> None:
        """Close both."""
        await self._looking.close()
        await super().close()

    async def open_jobs(self) -> int:
        """Count live jobs; a job that has ended is in the history."""
        return int(await self._looking.fetchval("SELECT count(*) FROM holdfast.live_jobs"))


if __name__ == "__main__":
    main(HoldfastOnPostgres)
