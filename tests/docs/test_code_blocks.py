"""Every block of code in the documentation does what the page says."""

import ast
import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from holdfast.stores.postgres.store import PostgresStore
from tests.docs.runner import SAMPLE_URL, PageRunner
from tests.support.doc_pages import PAGES, ROOT, blocks, name

RUN = ("python", "shell", "sql")


def address_of(dsn: str, database: str) -> str:
    """Spell the address of another database of the same server."""
    address, _, options = dsn.partition("?")
    return f"{address.rpartition('/')[0]}/{database}{'?' if options else ''}{options}"


@pytest.fixture(scope="session")
def template(dsn: str) -> Iterator[str]:
    """Give a database in which Holdfast has its schema, to be copied: that takes less time than making one."""
    name = f"docs_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(dsn, autocommit=True) as server:
        server.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        asyncio.run(PostgresStore(address_of(dsn, name)).migrator.up())
        yield name
        server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@pytest.fixture
async def database(dsn: str, template: str) -> AsyncIterator[str]:
    """Give a database of this test's own, in which Holdfast has its schema."""
    made = f"docs_{uuid.uuid4().hex[:12]}"
    server = await asyncpg.connect(dsn)
    await server.execute(f"CREATE DATABASE {made} TEMPLATE {template}")
    await server.close()
    url = address_of(dsn, made)
    yield url
    connection = await asyncpg.connect(url)
    for role in await connection.fetch("SELECT rolname FROM pg_roles WHERE rolname LIKE 'shop\\_%'"):
        await connection.execute(f"DROP OWNED BY {role[0]}; DROP ROLE {role[0]}")
    await connection.close()
    server = await asyncpg.connect(dsn)
    await server.execute(f"DROP DATABASE {made} WITH (FORCE)")
    await server.close()


@pytest.fixture
def runner(request: pytest.FixtureRequest, page: Path, tmp_path: Path) -> Iterator[PageRunner]:
    """Give a reader of the page; one with a database if the page names one."""
    needs_database = SAMPLE_URL in page.read_text(encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    found = PageRunner(f"page_{page.stem}", tmp_path, request.getfixturevalue("database") if needs_database else None)
    yield found
    found.close()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, *RUN)], ids=name)
def test_blocks_run(page: Path, runner: PageRunner) -> None:
    for block in blocks(page, *RUN):
        if block.reason is None:
            runner.run(block)
        elif block.language == "python":
            compile(block.code, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
