"""`doctor`: what it finds, what it advises, and that it changes nothing."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.health import checks, mounts
from holdfast.resources.health import HealthLevel
from holdfast.stores.diagnosis import Diagnosis, Holder
from holdfast.stores.postgres import migrator as postgres_migrator
from holdfast.stores.sqlite import migrator as sqlite_migrator
from holdfast.stores.values import WorkerProcess
from tests.cli import working
from tests.cli.conftest import Shop

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def found(shop: Shop, *args: str) -> dict[str, Any]:
    result = shop("doctor", "--json", *args)
    assert result.stderr == ""
    told: dict[str, Any] = json.loads(result.stdout)
    assert told["healthy"] is (result.exit_code == 0)
    assert result.exit_code in (0, 6)
    return told


def named(told: dict[str, Any], name: str) -> list[tuple[str, str]]:
    return [(check["level"], check["message"]) for check in told["checks"] if check["name"] == name]


def newest(shop: Shop) -> int:
    """Give the version of the schema that this release brings."""
    return len((sqlite_migrator if shop.url.startswith("sqlite") else postgres_migrator).MIGRATIONS)


def test_a_healthy_store(shop: Shop) -> None:
    told = found(shop)
    assert told["healthy"] is True
    assert {check["level"] for check in told["checks"]} <= {"ok", "warning"}
    assert named(told, "store")[0][0] == "ok"
    assert named(told, "schema") == [("ok", f"version {newest(shop)} is current")]
    assert named(told, "kinds") == [("ok", "3 tasks; they cover the newest 0 jobs that wait")]
    lines = shop.ok("doctor").splitlines()
    assert len(lines) == len(told["checks"])
    assert lines[0].startswith("ok      store    ")


def test_one_task_is_told_as_one() -> None:
    app = Holdfast("sqlite://")

    @app.task
    async def count() -> None: ...

    assert checks.kinds([], app.tasks).message == "1 task; it covers the newest 0 jobs that wait"


def test_what_needs_attention(shop: Shop) -> None:
    shop.enqueue("transcode", "url=a")
    shop.enqueue("transcode", "url=b")
    shop.enqueue("send_email", "to=a")
    shop.ok("queues", "pause", "high", "--actor", "alice", "--reason", "mail server is down")

    async def lose_a_worker(store: Any) -> None:
        await working.claim(store, "bulk", lease_ms=1)
        await store.register_worker(WorkerProcess(instance="j", host="web-2", pid=5), 60_000)

    shop.on_store(lose_a_worker)
    told = found(shop)
    assert told["healthy"] is True, "warnings leave it healthy"
    assert named(told, "queues") == [("warning", "high is paused by alice: mail server is down, just now")]
    alive, *lost = named(told, "workers")
    assert alive == ("ok", "1 alive")
    assert [level for level, _ in lost] == ["warning"]
    assert "(web-1, process 4711) ended " in lost[0][1]
    assert lost[0][1].endswith("it holds 1 job")


def test_a_queue_that_nobody_works(shop: Shop) -> None:
    shop.enqueue("transcode", "url=a")
    assert ("warning", "queue bulk has 1 job that may run and no worker") in named(found(shop), "workers")
    assert "may run and no worker; start one: holdfast worker -A module:app\n" in shop.ok("doctor")


def test_jobs_due_later_in_a_queue_that_nobody_works(shop: Shop) -> None:
    shop.enqueue("transcode", "url=a", "--delay", "1h")
    assert ("warning", "queue bulk has 1 job due later and no worker") in named(found(shop), "workers")


def test_the_oldest_transaction_is_named(postgres_shop: Shop, dsn: str) -> None:
    with psycopg.connect(dsn, application_name="month end", autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT pg_current_xact_id(), 'of the report'")
        pid = connection.info.backend_pid
        (line,) = named(found(postgres_shop), "vacuum")
    assert line[0] == "ok"
    assert f"process {pid} (postgres, month end, idle in transaction), keeps dead rows for " in line[1]
    assert "'of the report'" in line[1]


def test_partitions_reach_as_far_as_jobs_are_kept(postgres_shop: Shop) -> None:
    ((level, message),) = named(found(postgres_shop), "history")
    assert level == "ok"
    assert "partitions of history exist until " in message


def test_jobs_of_a_kind_that_the_app_does_not_know(shop: Shop) -> None:
    shop.enqueue("transcode", "url=a")
    source = (shop.folder / "shop.py").read_text(encoding="utf-8")
    (shop.folder / "newer.py").write_text(source.replace('kind="Transcode"', 'kind="encode"'), encoding="utf-8")
    result = shop("doctor", "-A", "newer:app", app=False)
    assert result.exit_code == 0
    assert "jobs wait whose kind this app does not know: transcode (1); import their tasks" in result.stdout
    assert named(found(shop, "-A", "newer:app"), "kinds")[0][0] == "warning"


def test_without_an_app_the_kinds_are_not_looked_at(sqlite_shop: Shop) -> None:
    sqlite_shop.ok("migrate", "up")
    result = sqlite_shop("doctor", "--json", "--store", sqlite_shop.url, app=False)
    assert named(json.loads(result.stdout), "kinds") == []


def test_no_store_is_unhealthy(sqlite_shop: Shop) -> None:
    told = found(sqlite_shop)
    assert told["healthy"] is False
    assert [(check["name"], check["level"]) for check in told["checks"]] == [("store", "error")]
    assert not (sqlite_shop.folder / "jobs.db").exists()
    url = "postgresql://user:s3cret@127.0.0.1:1/db"
    result = sqlite_shop("doctor", "--store", url, app=False)
    assert result.exit_code == 6
    assert result.stdout.startswith("error   store    ")
    assert "s3cret" not in result.stdout + sqlite_shop("doctor", "--json", "--store", url, app=False).stdout


def test_an_old_schema_is_unhealthy_and_stays_as_it_is(postgres_shop: Shop, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"""UPDATE "{postgres_shop.schema}".schema_functions SET checksum = 'old'
                               WHERE name = 'clock'""")
    for _ in range(2):
        told = found(postgres_shop)
        assert told["healthy"] is False
        assert named(told, "schema") == [("error", f"version {newest(postgres_shop)}, missing: 1 functions")]
    postgres_shop.ok("migrate", "up")
    assert found(postgres_shop)["healthy"] is True


def test_a_look_at_an_empty_sqlite_file_does_not_migrate_it(sqlite_shop: Shop) -> None:
    (sqlite_shop.folder / "jobs.db").touch()
    ((level, message),) = named(found(sqlite_shop), "schema")
    assert level == "error"
    assert message.startswith("version 0, missing: 0001_jobs, 0002_pipelines, 0003_cluster, 0004_limits, ")
    assert json.loads(sqlite_shop.ok("migrate", "status", "--json"))["version"] == 0


def test_a_schema_from_the_future_is_unhealthy(postgres_shop: Shop, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"""INSERT INTO "{postgres_shop.schema}".schema_migrations VALUES (99, 'x', 'x')""")
    told = found(postgres_shop)
    assert told["healthy"] is False
    ((level, message),) = named(told, "schema")
    assert level == "error"
    assert "version 99" in message


# ---- single checks -------------------------------------------------------------------------------------------------


def told(
    software: str = "SQLite",
    version: tuple[int, ...] = (3, 51, 3),
    history_until: datetime | None = None,
    **more: Any,
) -> Diagnosis:
    return Diagnosis(software, version, NOW, history_until, **more)


def test_a_sqlite_with_the_wal_reset_bug() -> None:
    assert checks.software(told()).level is HealthLevel.OK
    old = checks.software(told(version=(3, 51, 2)))
    assert old.level is HealthLevel.WARNING
    assert "WAL-reset" in old.message
    assert checks.software(told("PostgreSQL", (18, 4))) == checks.check("version", HealthLevel.OK, "PostgreSQL 18.4")


@pytest.mark.parametrize(
    "seconds, level",
    [
        (0, HealthLevel.OK),
        (0.9, HealthLevel.OK),
        (1.1, HealthLevel.WARNING),
        (-3, HealthLevel.WARNING),
        (61, HealthLevel.ERROR),
        (-90, HealthLevel.ERROR),
    ],
)
def test_clock_skew(seconds: float, level: HealthLevel) -> None:
    here = NOW + timedelta(seconds=seconds)
    assert checks.clock(told(), here, here).level is level


def test_clock_skew_within_the_time_of_asking_is_none() -> None:
    assert "agrees" in checks.clock(told(), NOW - timedelta(seconds=5), NOW + timedelta(seconds=5)).message


def test_partitions_ahead() -> None:
    assert checks.history(told()) is None
    enough = checks.history(told(history_until=NOW + timedelta(weeks=4)))
    assert enough is not None
    assert enough.level is HealthLevel.OK
    few = checks.history(told(history_until=NOW + timedelta(weeks=3)))
    assert few is not None
    assert few.level is HealthLevel.ERROR
    short = told(history_until=NOW + timedelta(weeks=5), longest_kept=timedelta(days=90))
    less = checks.history(short)
    assert less is not None
    assert less.level is HealthLevel.WARNING
    assert "some jobs are kept for 90 days" in less.message


@pytest.mark.parametrize(
    "what, state, age, xids, level",
    [
        ("transaction", "idle in transaction", timedelta(minutes=6), 7, HealthLevel.WARNING),
        ("transaction", "active", timedelta(minutes=4), 2_000_000, HealthLevel.OK),
        ("transaction", None, None, 2_000_000, HealthLevel.WARNING),
        ("transaction", None, None, 7, HealthLevel.OK),
        ("prepared", None, timedelta(hours=2), 7, HealthLevel.WARNING),
        ("slot", "in use", None, 7, HealthLevel.OK),
        ("slot", "in use", None, 2_000_000, HealthLevel.WARNING),
        ("slot", "not in use", None, 7, HealthLevel.WARNING),
    ],
)
def test_what_holds_back_vacuum(
    what: str, state: str | None, age: timedelta | None, xids: int, level: HealthLevel
) -> None:
    holder = Holder(what, "4711", "alice", "report", state, age, xids, "SELECT * FROM orders")
    (check,) = checks.vacuum(told("PostgreSQL", (18, 4), holders=(holder,)))
    assert check.level is level
    assert "4711" in check.message
    assert (check.advice is None) is (level is HealthLevel.OK)


def test_nothing_holds_back_vacuum() -> None:
    assert [check.level for check in checks.vacuum(told("PostgreSQL", (18, 4)))] == [HealthLevel.OK]
    assert checks.vacuum(told()) == []


def test_a_pooler_without_a_way_past_it() -> None:
    assert checks.pooler(told(), listens_past=False) is None
    pooled = told("PostgreSQL", (18, 4), is_pooled=True)
    assert [
        check and check.level for check in (checks.pooler(pooled, listens_past=past) for past in (True, False))
    ] == [
        HealthLevel.OK,
        HealthLevel.WARNING,
    ]


def test_a_large_log(tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    file.touch()
    assert [check.level for check in checks.file(file)] == [HealthLevel.OK, HealthLevel.OK]
    with (tmp_path / "jobs.db-wal").open("wb") as log:
        log.truncate(65_000_000)
    assert [check.level for check in checks.file(file)] == [HealthLevel.OK, HealthLevel.WARNING]


def test_network_mounts(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "22 21 0:5 / /home rw shared:1 - nfs4 server:/home rw\n"
        "23 22 8:2 / /home/local rw - xfs /dev/sdb1 rw\n"
        "24 21 0:6 / /mnt/my\\040share rw - cifs //host/share rw\n"
        "nonsense\n",
        encoding="utf-8",
    )
    for folder, expected in (
        ("/var", None),
        ("/home/alice", "nfs4"),
        ("/home", "nfs4"),
        ("/homes", None),
        ("/home/local/x", None),
        ("/mnt/my share/x", "cifs"),
    ):
        assert mounts.network_type(Path(folder), table) == expected, folder
    assert mounts.network_type(Path("/"), tmp_path / "missing") is None


def test_a_file_on_a_network_mount_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "network_type", lambda _: "nfs4")
    check, _ = checks.file(tmp_path / "jobs.db")
    assert check.level is HealthLevel.WARNING
    assert "(nfs4)" in check.message
