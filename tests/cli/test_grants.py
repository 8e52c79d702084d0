"""`migrate grants`: what it prints can be run, `--apply` runs it, and it says why it cannot."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.cli.conftest import Shop


@pytest.fixture
def role(postgres_shop: Shop, dsn: str) -> Iterator[str]:
    """Give a role that may do nothing yet."""
    name = f"role_{postgres_shop.schema}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'CREATE ROLE "{name}"')
        yield name
        connection.execute(f'DROP OWNED BY "{name}"; DROP ROLE "{name}"')


def may_insert(dsn: str, schema: str, role: str) -> bool:
    """Ask whether a role can enqueue."""
    with psycopg.connect(dsn) as connection:
        rights = connection.execute(
            "SELECT has_schema_privilege(%s, %s, 'USAGE') AND has_table_privilege(%s, %s, 'INSERT')",
            (role, schema, role, f'"{schema}".jobs'),
        ).fetchone()
    assert rights is not None
    return bool(rights[0])


def test_they_are_printed_and_can_be_run(postgres_shop: Shop, dsn: str, role: str) -> None:
    printed = postgres_shop.ok("migrate", "grants", role)
    assert printed.startswith(f'GRANT USAGE ON SCHEMA "{postgres_shop.schema}" TO "{role}";\n')
    assert not may_insert(dsn, postgres_shop.schema, role), "printing changes nothing"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(printed.encode())
    assert may_insert(dsn, postgres_shop.schema, role)


def test_they_are_applied(postgres_shop: Shop, dsn: str, role: str) -> None:
    result = postgres_shop("migrate", "grants", role, "--apply")
    assert result.exit_code == 0
    assert result.stderr == f"{role} has these rights now\n"
    assert may_insert(dsn, postgres_shop.schema, role)


def test_a_role_gets_no_more_than_its_purpose_needs(postgres_shop: Shop, dsn: str, role: str) -> None:
    assert postgres_shop("migrate", "grants", role, "--purpose", "enqueue", "--apply").exit_code == 0
    assert not may_insert(dsn, postgres_shop.schema, role)
    assert "enqueue_v1" in postgres_shop.ok("migrate", "grants", role, "--purpose", "enqueue")
    assert '"passes"' not in postgres_shop.ok("migrate", "grants", role)
    assert ".passes" in postgres_shop.ok("migrate", "grants", role, "--purpose", "work")


def test_a_role_that_does_not_exist(postgres_shop: Shop) -> None:
    result = postgres_shop("migrate", "grants", "nobody")
    assert result.exit_code == 1
    assert "has no role 'nobody'; make it first: CREATE ROLE \"nobody\" LOGIN" in result.stderr


def test_a_sqlite_file_has_no_roles(sqlite_shop: Shop) -> None:
    result = sqlite_shop("migrate", "grants", "anybody")
    assert result.exit_code == 1
    assert "expected a PostgreSQL store" in result.stderr
