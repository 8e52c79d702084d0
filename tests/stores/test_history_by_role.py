"""A worker whose role owns no table deletes history row by row: never before its time, and not for ever after it."""

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest

from holdfast.stores.postgres.store import PostgresStore
from holdfast.transitions import completed
from tests.support.connections import connected, insert, register, request

SATURDAY = datetime(2031, 3, 8, 12, tzinfo=UTC)


def as_role(dsn: str, role: str) -> str:
    """Address the same database as another role."""
    parts = urlsplit(dsn)
    return parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()


@pytest.fixture
async def worked(dsn: str, schema: str, postgres: PostgresStore) -> AsyncIterator[PostgresStore]:
    """Give the store as a role has it that may work with it and owns nothing."""
    role = f"hf_role_{uuid.uuid4().hex[:12]}"
    async with connected(dsn) as admin:
        await admin.execute(f"CREATE ROLE {role} LOGIN")
        await postgres.migrator.grants(role, apply=True)
        store = PostgresStore(as_role(dsn, role), schema=schema)
        await store.open()
        yield store
        await store.close()
        await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def finished_job(store: PostgresStore) -> int:
    """Let a job end."""
    await insert(store, 1)
    (job,) = await store.claim_jobs(request(await register(store)))
    await store.finish_jobs([completed(job.id, job.claim, "null")])
    return job.id


@pytest.mark.guards("history-by-role")
async def test_a_job_is_kept_until_its_retention_has_ended(postgres: PostgresStore, worked: PostgresStore) -> None:
    await postgres.set_time(SATURDAY)
    await worked.keep_history(100)
    job = await finished_job(worked)
    ((delete_at,),) = await postgres.fetch_sql(f"SELECT delete_at FROM holdfast.history WHERE id = {job}")
    assert delete_at.weekday() == SATURDAY.weekday(), "so that most of its week lies before it"
    monday = delete_at - timedelta(days=5, hours=12)
    for moment in (monday + timedelta(minutes=1), delete_at - timedelta(days=1), delete_at - timedelta(seconds=1)):
        await postgres.set_time(moment)
        assert (await worked.keep_history(100)).deleted == 0
        assert [found.id for found in await worked.get_jobs([job])] == [job]
    await postgres.set_time(monday + timedelta(days=7, minutes=1))
    assert (await worked.keep_history(100)).deleted == 1, "the week has ended"
