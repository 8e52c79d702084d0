"""A little program with tasks, on each store, and a way to run commands on it as a person would."""

import asyncio
import importlib
import shutil
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast
from holdfast.cli.main import standalone
from holdfast.stores.sqlite.store import SqliteStore

T = TypeVar("T")

SOURCE = """
from datetime import datetime
from typing import Any, Literal
from holdfast import Context, Holdfast, Pipeline, Queue, phase

app = Holdfast({url!r}, schema={schema!r}, queues=[Queue("high", priority=1)], deadline="5s", synchronous="normal")

@app.task(queue="high")
async def send_email(to: str, subject: str = "hi") -> str: ...

@app.task
def resize(
    ctx: Context, path: str, width: int, sizes: list[int] = [], at: datetime | None = None, value: Any = None,
    flag: bool = False, either: int | str = 0, mode: Literal["fast", "good"] = "good", maybe: int | None = None,
    loose=None, ratio: float = 1.0,
) -> None: ...

@app.task(queue="bulk", kind="Transcode")
class Transcode(Pipeline):
    url: str
    bitrate: int = 3

    @phase
    async def encode(self, ctx: Context) -> dict: ...
"""


class Shop:
    """The program, in its own folder."""

    def __init__(self, folder: Path, url: str, schema: str = "holdfast") -> None:
        self.folder = folder
        self.url = url
        self.schema = schema
        self.app = Holdfast(url, schema=schema)
        (folder / "shop.py").write_text(SOURCE.format(url=url, schema=schema), encoding="utf-8")

    def __call__(self, *args: str, stdin: str | bytes | None = None, app: bool = True) -> Result:
        """Run a command; a bug in the command line is raised here instead of being shown."""
        chosen = ("-A", "shop:app") if app else ()
        result = CliRunner().invoke(standalone, [*chosen, *args], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def ok(self, *args: str, stdin: str | bytes | None = None) -> str:
        """Run a command that must succeed, and give what it printed."""
        result = self(*args, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def enqueue(self, *args: str) -> str:
        """Enqueue a job and give its id."""
        return self.ok("enqueue", *args).strip()

    def load(self) -> Holdfast:
        """Import the program's app, with its tasks."""
        sys.path.insert(0, str(self.folder))
        app: Holdfast = importlib.import_module("shop").app
        return app

    def on_store(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Do with the store what workers will do."""

        async def run() -> T:
            async with self.app:
                return await work(self.app.store)

        return asyncio.run(run())


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start in an empty folder, with nothing chosen and nothing imported from an earlier test."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOLDFAST_APP", "HOLDFAST_STORE", "HOLDFAST_SERVER", "HOLDFAST_TOKEN", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> Shop:
    """Give the program on a SQLite file."""
    return Shop(tmp_path, f"sqlite:///{tmp_path}/jobs.db")


@pytest.fixture
def postgres_shop(tmp_path: Path, dsn: str, schema: str) -> Shop:
    """Give the program on PostgreSQL."""
    return Shop(tmp_path, dsn, schema)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a file that is migrated and empty, to be copied: that takes a tenth of the time of making one."""
    path = tmp_path_factory.mktemp("migrated") / "jobs.db"
    asyncio.run(SqliteStore(str(path)).migrator.up())
    return path


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """Give the program on each store."""
    found: Shop = request.getfixturevalue(f"{request.param}_shop")
    if request.param == "sqlite":
        shutil.copyfile(request.getfixturevalue("migrated_file"), tmp_path / "jobs.db")
    return found
