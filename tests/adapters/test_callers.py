"""How callers set up their connections does not matter, and what is no connection is refused with what would be one."""

import asyncio
import datetime as dt
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import psycopg.rows
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from holdfast.app import Holdfast
from holdfast.context import running_job
from holdfast.errors import ArgumentError, ConfigError, StoreUnavailable
from holdfast.public_id import encode
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite.store import SqliteStore
from tests.adapters.conftest import make_app
from tests.support.libraries import OrderTask, configured_django, django_database, django_sqlite

AppAndTask = tuple[Holdfast, OrderTask]
LARGE = 642_217_140_806_455_563  # above 2^53, where a float would round


@pytest.fixture
async def opened(dsn: str, emptied_schema: str) -> AsyncIterator[AppAndTask]:
    """Give an open app on PostgreSQL."""
    app, ship = make_app()
    async with app.open_on(PostgresStore(dsn, schema=emptied_schema)):
        yield app, ship


async def numbers(app: Holdfast) -> list[int]:
    return sorted([job.args["n"] async for job in app.jobs.iterate()])


def enqueue_thrice(opened: AppAndTask, connection: Any) -> Callable[[], None]:
    """Enqueue 1 and, with a key twice, 2: so that answers of every sort are read."""
    app, ship = opened

    def use() -> None:
        with app.blocking() as queue:
            first = queue.enqueue(ship.using(connection=connection).call(1))
            second = queue.enqueue(ship.using(connection=connection, key="k").call(2))
            third = queue.enqueue(ship.using(connection=connection, key="k").call(2))
        assert isinstance(first.number, int)
        assert (first.created, second.created, third.created) == (True, True, False)
        assert third.number == second.number != first.number

    return use


async def enqueue_thrice_async(opened: AppAndTask, connection: Any) -> None:
    _, ship = opened
    first = await ship.using(connection=connection).enqueue(1)
    second = await ship.using(connection=connection, key="k").enqueue(2)
    third = await ship.using(connection=connection, key="k").enqueue(2)
    assert isinstance(first.number, int)
    assert (first.created, second.created, third.created) == (True, True, False)
    assert third.number == second.number != first.number


# ---- psycopg ---------------------------------------------------------------------------------------------------------


PSYCOPG_HABITS: dict[str, dict[str, Any]] = {
    "dict rows": {"row_factory": psycopg.rows.dict_row},
    "named tuples": {"row_factory": psycopg.rows.namedtuple_row},
    "scalar rows": {"row_factory": psycopg.rows.scalar_row},
    "class rows": {"row_factory": psycopg.rows.class_row(dict)},
    "client cursors": {"cursor_factory": psycopg.ClientCursor},
    "raw cursors": {"cursor_factory": psycopg.RawCursor},
    "never prepared": {"prepare_threshold": None},
    "always prepared": {"prepare_threshold": 0},
}
PSYCOPG_ASYNC_CURSORS = {
    psycopg.ClientCursor: psycopg.AsyncClientCursor,
    psycopg.RawCursor: psycopg.AsyncRawCursor,
}


@pytest.mark.parametrize("habit", PSYCOPG_HABITS)
async def test_psycopg_connections_of_every_habit(opened: AppAndTask, dsn: str, habit: str) -> None:
    with psycopg.connect(dsn, **PSYCOPG_HABITS[habit]) as connection:
        await asyncio.to_thread(enqueue_thrice(opened, connection))
        connection.commit()
    assert await numbers(opened[0]) == [1, 2]


@pytest.mark.parametrize("habit", PSYCOPG_HABITS)
async def test_psycopg_async_connections_of_every_habit(opened: AppAndTask, dsn: str, habit: str) -> None:
    options = dict(PSYCOPG_HABITS[habit])
    if "cursor_factory" in options:
        options["cursor_factory"] = PSYCOPG_ASYNC_CURSORS[options["cursor_factory"]]
    async with await psycopg.AsyncConnection.connect(dsn, **options) as connection:
        await enqueue_thrice_async(opened, connection)
        await connection.commit()
    assert await numbers(opened[0]) == [1, 2]


async def test_a_psycopg_pipeline(opened: AppAndTask, dsn: str) -> None:
    with psycopg.connect(dsn) as connection, connection.pipeline():
        await asyncio.to_thread(enqueue_thrice(opened, connection))
    assert await numbers(opened[0]) == [1, 2]


async def test_a_psycopg_transaction_block_on_an_autocommit_connection(
    opened: AppAndTask, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        with connection.transaction(force_rollback=True):
            await asyncio.to_thread(enqueue_thrice(opened, connection))
        assert await numbers(opened[0]) == []
        with connection.transaction():
            await asyncio.to_thread(enqueue_thrice(opened, connection))
    assert await numbers(opened[0]) == [1, 2]
    assert caplog.records == []


# ---- asyncpg ---------------------------------------------------------------------------------------------------------


class ShopRecord(asyncpg.Record):
    """A caller's own sort of row."""


async def test_asyncpg_codecs_and_records(opened: AppAndTask, dsn: str) -> None:
    connection = await asyncpg.connect(dsn, record_class=ShopRecord, statement_cache_size=0)
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    transaction = connection.transaction()
    await transaction.start()
    await enqueue_thrice_async(opened, connection)
    await transaction.commit()
    await connection.close()
    assert await numbers(opened[0]) == [1, 2]


async def test_a_handlers_job_is_the_parent_in_its_own_transactions(opened: AppAndTask, dsn: str) -> None:
    app, ship = opened
    connection = await asyncpg.connect(dsn)
    token = running_job.set(LARGE)
    async with connection.transaction():
        await ship.using(connection=connection).enqueue(1)
        await app.enqueue_many([ship.call(2), ship.using(key="k").call(3)], connection=connection)
    running_job.reset(token)
    async with connection.transaction():
        await ship.using(connection=connection).enqueue(4)
    await connection.close()
    assert {job.args["n"]: job.parent async for job in app.jobs.iterate()} == {
        **dict.fromkeys((1, 2, 3), encode(LARGE)),
        4: None,
    }


async def test_an_asyncpg_pool(opened: AppAndTask, dsn: str) -> None:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection, connection.transaction():
            await enqueue_thrice_async(opened, connection)
        assert await numbers(opened[0]) == [1, 2]


class ShopConnection(asyncpg.Connection):
    """A caller's own sort of connection."""


async def test_an_asyncpg_connection_class(opened: AppAndTask, dsn: str) -> None:
    connection = await asyncpg.connect(dsn, connection_class=ShopConnection)
    async with connection.transaction():
        await enqueue_thrice_async(opened, connection)
    await connection.close()
    assert await numbers(opened[0]) == [1, 2]


# ---- SQLAlchemy ------------------------------------------------------------------------------------------------------


def engine_for(dsn: str, **options: Any) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool, **options
    )


SQLALCHEMY_HABITS: dict[str, dict[str, Any]] = {
    "own json": {"json_serializer": json.dumps, "json_deserializer": lambda _: "other"},
    "streamed results": {"execution_options": {"stream_results": True, "yield_per": 1}},
    "echo": {"echo": "debug", "hide_parameters": True},
    "translated schemas": {"execution_options": {"schema_translate_map": {None: "public"}}},
}


@pytest.mark.parametrize("habit", SQLALCHEMY_HABITS)
async def test_sqlalchemy_engines_of_every_habit(opened: AppAndTask, dsn: str, habit: str) -> None:
    engine = engine_for(dsn, **SQLALCHEMY_HABITS[habit])
    with engine.connect() as connection:
        await asyncio.to_thread(enqueue_thrice(opened, connection))
        connection.commit()
    assert await numbers(opened[0]) == [1, 2]


async def test_a_sqlalchemy_session_with_unflushed_objects(opened: AppAndTask, dsn: str) -> None:
    class Base(sqlalchemy.orm.DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "orders"
        __table_args__ = {"schema": opened[0].store.schema}  # type: ignore[attr-defined] # noqa: RUF012 - SQLAlchemy's form
        n: sqlalchemy.orm.Mapped[int] = sqlalchemy.orm.mapped_column(primary_key=True)

    engine = engine_for(dsn)
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Order(n=1))
        await asyncio.to_thread(enqueue_thrice(opened, session))
    with Session(engine) as session:
        session.add(Order(n=2))
        await opened[1].using(connection=session).enqueue(3)
        session.rollback()
        assert [order.n for order in session.scalars(sqlalchemy.select(Order))] == [1]
    assert await numbers(opened[0]) == [1, 2]


async def test_a_savepoint_of_the_callers_own(opened: AppAndTask, dsn: str) -> None:
    app, ship = opened
    with engine_for(dsn).connect() as connection:
        await ship.using(connection=connection).enqueue(1)
        savepoint = connection.begin_nested()
        await ship.using(connection=connection).enqueue(2)
        savepoint.rollback()
        await ship.using(connection=connection).enqueue(3)
        connection.commit()
    assert await numbers(app) == [1, 3]


# ---- Django ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"server_side_binding": True}, {"cursor_factory": psycopg.ClientCursor}])
async def test_django_connections_of_every_habit(opened: AppAndTask, dsn: str, options: Any) -> None:
    def use() -> None:
        connections = configured_django()
        connections.settings["habits"] = django_database(dsn, **options)
        connection = connections["habits"]
        from django.db import transaction

        try:
            connection.force_debug_cursor = True  # what DEBUG does: cursors that keep and show what they ran
            with transaction.atomic(using="habits"):
                enqueue_thrice(opened, connection)()
        finally:
            connection.close()
            del connections["habits"]

    await asyncio.to_thread(use)
    assert await numbers(opened[0]) == [1, 2]


async def test_djangos_default_connection_is_accepted_through_its_proxy(opened: AppAndTask, dsn: str) -> None:
    def use() -> None:
        connections = configured_django()
        usual = connections.settings["default"]
        connections.settings["default"] = django_database(dsn)
        from django.db import connection, transaction

        try:
            with transaction.atomic():
                enqueue_thrice(opened, connection)()
        finally:
            connection.close()
            connections.settings["default"] = usual
            del connections["default"]

    await asyncio.to_thread(use)
    assert await numbers(opened[0]) == [1, 2]


# ---- sqlite3 ---------------------------------------------------------------------------------------------------------


def dictionaries(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


class ShopSqlite(sqlite3.Connection):
    """A caller's own sort of connection."""


@pytest.mark.parametrize(
    "habit",
    [
        {},
        {"row_factory": sqlite3.Row},
        {"row_factory": dictionaries},
        {"text_factory": bytes},
        {"isolation_level": "IMMEDIATE"},
        {"isolation_level": "EXCLUSIVE"},
        {"factory": ShopSqlite},
        {"detect_types": sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES},
    ],
)
def test_sqlite3_connections_of_every_habit(tmp_path: Path, habit: dict[str, Any]) -> None:
    path = tmp_path / "shop.db"
    app, ship = make_app(f"sqlite:///{path}")
    given = {name: value for name, value in habit.items() if not name.endswith("_factory")}
    with app.blocking() as queue, closing(sqlite3.connect(path, **given)) as connection:
        for name in habit.keys() - given.keys():
            setattr(connection, name, habit[name])
        enqueue_thrice((app, ship), connection)()
        assert connection.in_transaction
        connection.rollback()
        assert list(queue.jobs.iterate()) == []
        enqueue_thrice((app, ship), connection)()
        connection.commit()
        assert sorted(job.args["n"] for job in queue.jobs.iterate()) == [1, 2]


def test_a_sqlite3_transaction_begun_by_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "shop.db"
    app, ship = make_app(f"sqlite:///{path}")
    with app.blocking() as queue, closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for begin in ("BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT ours"):
            connection.execute(begin)
            enqueue_thrice((app, ship), connection)()
            assert connection.in_transaction
            connection.execute("ROLLBACK")
            assert list(queue.jobs.iterate()) == []
        connection.execute("BEGIN")
        enqueue_thrice((app, ship), connection)()
        connection.execute("COMMIT")
        assert sorted(job.args["n"] for job in queue.jobs.iterate()) == [1, 2]
    assert caplog.records == []


def test_a_sqlite3_transaction_that_has_read_and_was_overtaken(tmp_path: Path) -> None:
    """SQLite cannot let it write any more, whatever the timeout: a typed error at once, and nothing half done."""
    path = tmp_path / "shop.db"
    app, ship = make_app(f"sqlite:///{path}")
    with app.blocking() as queue, closing(sqlite3.connect(path, timeout=3_600)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM holdfast_jobs").fetchall()
        queue.enqueue(ship.call(1))
        with pytest.raises(StoreUnavailable, match="BEGIN IMMEDIATE"):
            queue.enqueue(ship.using(connection=connection).call(2))
        connection.rollback()
        connection.execute("BEGIN IMMEDIATE")
        queue.enqueue(ship.using(connection=connection).call(3))
        connection.commit()
        assert sorted(job.args["n"] for job in queue.jobs.iterate()) == [1, 3]


# ---- without a transaction -------------------------------------------------------------------------------------------


@asynccontextmanager
async def autocommit_connection(kind: str, dsn: str) -> AsyncIterator[Any]:
    if kind == "asyncpg":
        connection = await asyncpg.connect(dsn)
        yield connection
        await connection.close()
    elif kind == "psycopg":
        with psycopg.connect(dsn, autocommit=True) as sync:
            yield sync
    elif kind == "psycopg-async":
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as found:
            yield found
    elif kind == "sqlalchemy":
        with engine_for(dsn, isolation_level="AUTOCOMMIT").connect() as sync_connection:
            yield sync_connection
    elif kind == "sqlalchemy-option":
        with engine_for(dsn).connect().execution_options(isolation_level="AUTOCOMMIT") as sync_connection:
            yield sync_connection
    elif kind == "sqlalchemy-session":
        with Session(engine_for(dsn, isolation_level="AUTOCOMMIT")) as session:
            yield session
    else:
        engine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=lambda **_: asyncpg.connect(dsn),
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
        )
        if kind == "sqlalchemy-async":
            async with engine.connect() as async_connection:
                yield async_connection
        else:
            async with AsyncSession(engine) as async_session:
                yield async_session
        await engine.dispose()


@pytest.mark.parametrize(
    "kind",
    [
        "asyncpg",
        "psycopg",
        "psycopg-async",
        "sqlalchemy",
        "sqlalchemy-option",
        "sqlalchemy-session",
        "sqlalchemy-async",
        "sqlalchemy-async-session",
    ],
)
async def test_a_connection_without_a_transaction_is_used_and_logged(
    opened: AppAndTask, dsn: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    app, ship = opened
    async with autocommit_connection(kind, dsn) as connection:
        await ship.using(connection=connection).enqueue(1)
        assert await numbers(app) == [1]
    assert_autocommit_logged(caplog, kind.partition("-")[0])


async def test_django_without_a_transaction_is_used_and_logged(
    opened: AppAndTask, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    app, ship = opened

    def use() -> None:
        connections = configured_django()
        connections.settings["autocommit"] = django_database(dsn)
        connection = connections["autocommit"]
        with app.blocking() as queue:
            queue.enqueue(ship.using(connection=connection).call(1))
        connection.close()
        del connections["autocommit"]

    await asyncio.to_thread(use)
    assert await numbers(app) == [1]
    assert_autocommit_logged(caplog, "django")


def test_libraries_over_sqlite_without_a_transaction_are_used_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "shop.db"
    app, ship = make_app(f"sqlite:///{path}")
    connections = configured_django()
    connections.settings["autocommit"] = django_sqlite(str(path))
    django = connections["autocommit"]
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with app.blocking() as queue, engine.connect() as alchemy, Session(engine) as session:
        for n, connection in enumerate((django, alchemy, session)):
            caplog.clear()
            queue.enqueue(ship.using(connection=connection).call(n))
            assert_autocommit_logged(caplog, "sqlite3")
        assert sorted(job.args["n"] for job in queue.jobs.iterate()) == [0, 1, 2]
    django.close()
    del connections["autocommit"]


def test_sqlite3_without_a_transaction_is_used_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "shop.db"
    app, ship = make_app(f"sqlite:///{path}")
    with app.blocking() as queue, closing(sqlite3.connect(path, isolation_level=None)) as connection:
        queue.enqueue_many([ship.call(n) for n in range(3)], connection=connection)
        assert not connection.in_transaction
        assert len(list(queue.jobs.iterate())) == 3
    assert_autocommit_logged(caplog, "sqlite3")


def assert_autocommit_logged(caplog: pytest.LogCaptureFixture, library: str) -> None:
    messages = [record.getMessage() for record in caplog.records if record.name == "holdfast"]
    assert len(messages) == 1
    assert library in messages[0]
    assert "committed at once" in messages[0]
    assert caplog.records[0].levelno == logging.WARNING


# ---- what is no connection -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["a text", 5, object(), logging.getLogger(), dt.datetime.now(dt.UTC)])
async def test_what_is_no_connection_is_refused(opened: AppAndTask, wrong: object) -> None:
    app, ship = opened
    for awaited in (
        lambda: ship.using(connection=wrong).enqueue(1),
        lambda: app.enqueue_many([ship.call(1)], connection=wrong),
    ):
        with pytest.raises(ConfigError) as caught:
            await awaited()
        for accepted in ("asyncpg", "psycopg", "Django", "Connection, Session, AsyncConnection or AsyncSession"):
            assert accepted in str(caught.value)
        assert type(wrong).__name__ in str(caught.value)
    assert await numbers(app) == []


async def test_things_near_a_connection_are_refused(opened: AppAndTask, dsn: str) -> None:
    _, ship = opened
    async with asyncpg.create_pool(dsn, min_size=0, max_size=1) as pool:
        await refused(ship, pool)
    with psycopg.connect(dsn) as connection:
        await refused(ship, connection.cursor())
    await refused(ship, engine_for(dsn))
    await refused(ship, sqlite3)
    with closing(sqlite3.connect(":memory:")) as sqlite_connection:
        await refused(ship, sqlite_connection)


async def refused(ship: OrderTask, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="asyncpg, psycopg"):
        await ship.using(connection=wrong).enqueue(1)


async def test_the_blocking_client_refuses_them_too(opened: AppAndTask) -> None:
    app, ship = opened

    def use() -> None:
        with app.blocking() as queue:
            with pytest.raises(ConfigError, match="asyncpg, psycopg"):
                queue.enqueue(ship.using(connection="text").call(1))
            with pytest.raises(ConfigError, match="asyncpg, psycopg"):
                queue.enqueue_many([ship.call(1)], connection="text")

    await asyncio.to_thread(use)


async def test_the_sqlite_store_refuses_what_is_not_over_sqlite(tmp_path: Path, dsn: str) -> None:
    app, ship = make_app()
    async with app.open_on(SqliteStore(str(tmp_path / "shop.db"))):
        alchemy = engine_for(dsn)
        with psycopg.connect(dsn) as connection, alchemy.connect() as over_postgres:
            for wrong in (connection, connection.cursor(), alchemy, over_postgres, "text", 5, object()):
                with pytest.raises(ConfigError) as caught:
                    await ship.using(connection=wrong).enqueue(1)
                for accepted in ("sqlite3.Connection", "Django", "Connection or Session of SQLAlchemy"):
                    assert accepted in str(caught.value)
                assert type(wrong).__name__ in str(caught.value)
        assert await numbers(app) == []


async def test_a_sqlite3_connection_to_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    app, ship = make_app()
    async with app.open_on(SqliteStore(str(path))):
        for other in (":memory:", tmp_path / "other.db"):
            with (
                closing(sqlite3.connect(other)) as connection,
                pytest.raises(ConfigError, match=r"main database is the store's file"),
            ):
                await ship.using(connection=connection).enqueue(1)
        link = tmp_path / "link.db"
        link.symlink_to(path)
        with closing(sqlite3.connect(link)) as connection:
            await ship.using(connection=connection).enqueue(1)
            connection.commit()
        assert await numbers(app) == [1]


async def test_a_store_in_memory_accepts_no_connection() -> None:
    app, ship = make_app()
    async with app:
        with (
            closing(sqlite3.connect(":memory:")) as connection,
            pytest.raises(ConfigError, match=r"in memory|:memory:"),
        ):
            await ship.using(connection=connection).enqueue(1)
        assert await numbers(app) == []


# ---- the same limits with and without a connection -------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits, argument",
    [
        ({}, [1] * 127_990),  # 255,990 bytes of JSON as the client counts them
        ({"max_args_bytes": 1_000_000}, "x" * 900_000),
        ({"max_depth": 100}, None),
        ({}, 2**63 + 1),
        ({}, -1.7976931348623157e308),
    ],
    ids=["compact", "large", "deep", "integer", "float"],
)
async def test_what_an_app_accepts_its_callers_transaction_accepts(
    dsn: str, emptied_schema: str, limits: dict[str, Any], argument: Any
) -> None:
    if argument is None:
        for _ in range(90):
            argument = [argument]
    app = Holdfast("sqlite://", **limits)

    @app.task
    async def keep(what: Any) -> None: ...

    async with app.open_on(PostgresStore(dsn, schema=emptied_schema)):
        own = await keep.enqueue(argument)
        with psycopg.connect(dsn) as connection:
            in_transaction = await keep.using(connection=connection).enqueue(argument)
        stored = (await own.get()).args["what"]
        assert stored == (await in_transaction.get()).args["what"]
        # PostgreSQL writes a large number without exponent, so it comes back as a whole one.
        assert (float(stored) if isinstance(argument, float) else stored) == argument


async def test_wrong_arguments_are_refused_before_the_transaction_is_touched(opened: AppAndTask, dsn: str) -> None:
    app, ship = opened
    with psycopg.connect(dsn) as connection:
        with pytest.raises(ArgumentError):
            await ship.using(connection=connection).enqueue("no number")  # type: ignore[arg-type] # wrong on purpose
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        await ship.using(connection=connection).enqueue(1)
    assert await numbers(app) == [1]
