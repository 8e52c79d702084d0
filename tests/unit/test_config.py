"""Settings: URLs, queues and options, and passwords that no message shows."""

import subprocess
import sys
from typing import Any

import pytest

from holdfast import ConfigError, Holdfast, Queue
from holdfast.job import JobState
from holdfast.locations import PostgresLocation, SqliteLocation, locate, masked

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    "url, path",
    [
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:///data/jobs.db", "data/jobs.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("sqlite:///C:/jobs.db", "C:/jobs.db"),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
    ],
)
def test_sqlite_urls(url: str, path: str | None) -> None:
    assert locate(url) == SqliteLocation(path)


@pytest.mark.parametrize("url", ["postgresql://u:p@host/db", "postgres://host", "postgresql:///db?host=/run/pg"])
def test_postgres_urls_go_to_the_driver_as_they_are(url: str) -> None:
    assert locate(url) == PostgresLocation(url)


@pytest.mark.parametrize(
    "url, hint",
    [
        ("sqlite://jobs.db", "three slashes are relative"),
        ("sqlite:///", "three slashes are relative"),
        ("sqlite:///jobs.db?mode=ro", "nothing follows"),
        ("jobs.db", "got 'jobs.db'"),
        ("", "got ''"),
        ("mysql://root:hunter2@host/db", r"got 'mysql://root:\*\*\*@host/db'"),
        ("postgresql+asyncpg://u:hunter2@host/db", "write postgresql:// without a driver"),
        ("sqlite+aiosqlite:///jobs.db", "write sqlite:// without a driver"),
        ("u:hunter2@host/db", r"got 'u:\*\*\*@host/db'"),
        ("host=h user=u password=hunter2", r"password=\*\*\*"),
        ("host=h password='hunter2 hunter2' user=u", r"password=\*\*\* user=u"),
        ("postgresql://u:hunter2/x@host:port/db", "escape special characters"),
        ("postgresql://u:hunter2@[::1/db", "escape special characters"),
        (None, "got neither"),
        (5, "got int"),
    ],
)
def test_other_urls_are_refused_without_showing_a_password(url: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint) as caught:
        Holdfast(url)
    assert "hunter2" not in str(caught.value)
    assert "expected" in str(caught.value)
    assert caught.value.__cause__ is None or "hunter2" not in str(caught.value.__cause__)


@pytest.mark.parametrize(
    "url, shown",
    [
        ("postgresql://u:hunter2@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:hun@ter2@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:hun:ter2@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:hun/ter2@host/db", "postgresql://u:***@host/db"),
        ("postgresql://:hunter2@host/db", "postgresql://:***@host/db"),
        ("postgresql://u@host/db?password=hunter2&x=1", "postgresql://u@host/db?password=***&x=1"),
        ("postgresql://u@host/db?sslpassword=hun@ter2", "postgresql://u@host/db?sslpassword=***"),
        ("postgresql://u@host:5432/db", "postgresql://u@host:5432/db"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
    ],
)
def test_masked(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_no_repr_shows_the_password() -> None:
    app = Holdfast("postgresql://u:hunter2@host/db")
    assert repr(app) == "Holdfast('postgresql://u:***@host/db')"
    assert "hunter2" not in repr(app.config)
    assert "hunter2" not in repr(app.__dict__)


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"schema": ""}, "schema: expected 1 to 63 bytes"),
        ({"schema": "a'b"}, "schema: expected 1 to 63 bytes"),
        ({"schema": None}, "schema: expected 1 to 63 bytes"),
        ({"deadline": 0}, "deadline: expected more than 0"),
        ({"deadline": "soon"}, "deadline: expected seconds as a number"),
        ({"pool_size": 0}, "pool_size: expected a whole number from 1 to 1000"),
        ({"pool_size": "5"}, "pool_size: expected a whole number"),
        ({"synchronous": "off"}, 'synchronous: expected "full"'),
        ({"max_args_bytes": -1}, "max_args_bytes: expected a whole number"),
        ({"max_args_bytes": "256kB"}, "max_args_bytes: expected a whole number"),
        ({"max_depth": 501}, "max_depth: expected a whole number from 1 to 500"),
        ({"max_attempts": 0}, "max_attempts: expected a whole number"),
        ({"max_crashes": True}, "max_crashes: expected a whole number"),
        ({"timeout": 0}, "timeout: expected more than 0, got 0; None means no timeout"),
        ({"queues": ["bulk"]}, r"queues: expected Queue\(...\) values, got 'bulk'; write Queue\('bulk'\)"),
        ({"queues": [Queue("a"), Queue("A")]}, "queues: 'a' is defined twice"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Holdfast("sqlite://", **options)


@pytest.mark.parametrize(
    "values, options, reason",
    [
        ([], {"quue": []}, r"Holdfast\(\) has no option 'quue'; did you mean 'queues'\?"),
        ([], {"zzz": 1}, r"Holdfast\(\) has no option 'zzz'; expected one of url, schema,"),
        (["holdfast"], {}, r"Holdfast\(\) takes the URL of the store; all other options are named, got 2 values"),
        ([], {"url": "sqlite://"}, r"Holdfast\(\) got two values for 'url'"),
    ],
)
def test_a_wrong_option_is_named_as_one_of_the_app(values: list[Any], options: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        Holdfast("sqlite://", *values, **options)


def test_options_are_converted() -> None:
    settings = Holdfast("sqlite://", deadline="1m", timeout=None, queues=[Queue("Bulk", priority=9)]).config
    assert (settings.deadline_s, settings.timeout_ms) == (60.0, None)
    assert (settings.queue_of("bulk").priority, settings.queue_of("other").priority) == (9, 5)


def test_the_retention_of_a_queue() -> None:
    assert Queue("a").retention_ms == {
        JobState.COMPLETED: 7 * DAY_MS,
        JobState.COMPLETED_WITH_ERRORS: 7 * DAY_MS,
        JobState.FAILED: 30 * DAY_MS,
        JobState.CANCELLED: 7 * DAY_MS,
    }
    mixed = Queue("a", retention={"completed": "1h", "failed": "forever"}).retention_ms
    assert (mixed[JobState.COMPLETED], mixed[JobState.FAILED], mixed[JobState.CANCELLED]) == (
        3_600_000,
        None,
        7 * DAY_MS,
    )
    assert set(Queue("a", retention="forever").retention_ms.values()) == {None}
    assert set(Queue("a", retention="100w").retention_ms.values()) == {700 * DAY_MS}


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"name": "a b"}, "queue 'a b': name: expected 1 to 64 letters"),
        ({"priority": 11}, "queue 'a': priority: expected"),
        ({"retention": "701d"}, "at most 100 weeks, got '701d'; write \"forever\""),
        ({"retention": 0}, "retention of completed: expected more than 0"),
        ({"retention": {"lost": "7d"}}, "expected outcomes among cancelled, completed.*got lost"),
        ({"retention": {"failed": "soon"}}, "retention of failed: expected"),
    ],
)
def test_wrong_queues_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Queue(**({"name": "a"} | options))


def test_importing_holdfast_imports_no_driver_and_no_framework() -> None:
    program = "import sys, holdfast, holdfast.testing; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"asyncpg", "sqlite3", "click", "rich", "pydantic", "psycopg", "sqlalchemy"} & set(loaded)
