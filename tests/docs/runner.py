"""Runs the blocks of one page, in order, as a reader would who follows it.

The Python blocks of a page share a namespace. Blocks with `await` at their top level run inside `async with app:`,
which ends at the next block that opens something itself. `#> text` states what a block prints. A block whose first line
is a comment with a file's name is also written to that file. Of shell blocks, the lines with `holdfast`, `python` and
`export` run, in the same folder; the sample id there stands for the job of the line before. A worker with `&` and
`holdfast dev` run on beside the page, until `kill -9 %1` or the end of the page kills them.
"""

import ast
import asyncio
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Callable
from inspect import CO_COROUTINE
from pathlib import Path

from click.testing import CliRunner

from holdfast import Holdfast
from holdfast.cli.main import standalone
from holdfast.locations import SqliteLocation
from tests.support.doc_pages import ROOT, Block, name

SAMPLE_URL = "//localhost/shop"
SAMPLE_ID = "htcx-2s16-z48b-09"

_FILE = re.compile(r"# (\w+\.py)\n")
_EXPORT = re.compile(r"export (\w+)=(\S+)")
_ID = re.compile(r"\b[0-9a-z]{4}-[0-9a-z]{4}-[0-9a-z]{4}-\d\d\b")
_PRINTED = re.compile(r"#> (.*)$", re.MULTILINE)


class PageRunner:
    """One reader of one page, in a folder of its own."""

    def __init__(self, module: str, folder: Path, database: str | None) -> None:
        self._folder = folder
        self._database = database
        self._module = types.ModuleType(module)
        sys.modules[module] = self._module  # where dataclasses look for the names in their annotations
        sys.path.insert(0, str(folder))
        self._asyncio = asyncio.Runner()
        self._open_app: Holdfast | None = None
        self._at_close: list[Callable[[], object]] = [lambda: sys.path.remove(str(folder))]
        self._environment = {"PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}
        self._last_id = SAMPLE_ID
        self._workers: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        """Close what the page left open."""
        self._kill_workers()
        self._close_app()
        for put_back in self._at_close:
            put_back()
        self._asyncio.close()
        del sys.modules[self._module.__name__]

    def run(self, block: Block) -> None:
        """Run one block; what it says about its own output must hold."""
        if block.language in ("shell", "console"):
            self._run_shell(block)
        elif block.language == "sql":
            self._asyncio.run(self._run_sql(block))
        else:
            self._run_python(block)

    def _filled_in(self, text: str) -> str:
        """Put the test's own database where the page shows a sample one."""
        if self._database is None:
            return text
        return text.replace(SAMPLE_URL, self._database.removeprefix("postgresql:"))

    def _run_python(self, block: Block) -> None:
        source = self._filled_in(block.code)
        if (file := _FILE.match(source)) is not None:
            (self._folder / file[1]).write_text(source, encoding="utf-8")
            self._at_close.append(lambda: sys.modules.pop(file[1].removesuffix(".py"), None))
        # Blank lines in front, so that a traceback names the line of the page.
        code = compile("\n" * block.line + source, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if "django" in source:
            self._use_django()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(self._folder):
            if code.co_flags & CO_COROUTINE and "async with" not in source:
                self._asyncio.run(self._inside_app(code))
            else:
                self._close_app()
                coroutine = eval(code, vars(self._module))  # noqa: S307 - this project's own pages
                if coroutine is not None:
                    self._asyncio.run(coroutine)
        if expected := _PRINTED.findall(source):
            assert printed.getvalue().splitlines() == expected, f"{name(block.page)}, line {block.line}"

    async def _inside_app(self, code: types.CodeType) -> None:
        app = getattr(self._module, "app", None)
        if self._open_app is None and app is not None and self._is_reachable(app):
            self._open_app = await app.__aenter__()
        await eval(code, vars(self._module))  # noqa: S307 - this project's own pages

    def _is_reachable(self, app: Holdfast) -> bool:
        return app.config.url == self._database or isinstance(app.config.location, SqliteLocation)

    def _close_app(self) -> None:
        if self._open_app is not None:
            self._asyncio.run(self._open_app.__aexit__(None, None, None))
            self._open_app = None

    def _use_django(self) -> None:
        """Let Django's default connection lead to the page's database, whatever other tests have configured."""
        import django
        from django.conf import settings
        from django.db import connections
        from django.db.utils import ConnectionHandler
        from psycopg.conninfo import conninfo_to_dict

        parts = conninfo_to_dict(self._database or "")
        names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
        given = {key: parts.get(part) or "" for key, part in names.items()}
        database = {"ENGINE": "django.db.backends.postgresql", **given}
        if not settings.configured:
            settings.configure(DATABASES={"default": database})
            django.setup()
        usual = connections["default"]
        connections["default"] = own = ConnectionHandler({"default": database})["default"]

        def put_back() -> None:
            own.close()
            connections["default"] = usual

        self._at_close.append(put_back)

    async def _run_sql(self, block: Block) -> None:
        import asyncpg

        connection = await asyncpg.connect(self._database)
        await connection.execute(block.code)
        await connection.close()

    def _run_shell(self, block: Block) -> None:
        for line in self._filled_in(block.code).replace("\\\n", " ").splitlines():
            if (variable := _EXPORT.match(line)) is not None:
                self._environment[variable[1]] = variable[2]
            elif line.startswith("holdfast worker") and line.endswith(" &"):
                self._start_worker(line.removesuffix(" &"))
            elif line == "holdfast dev":
                self._start_worker(f"{line} --port 0")
            elif line == "kill -9 %1":
                self._kill_workers()
            elif line.startswith(("holdfast ", "python ")):
                self._run_command(line)

    def _run_command(self, line: str) -> None:
        program, *words = shlex.split(line.partition(" > ")[0].replace(SAMPLE_ID, self._last_id), comments=True)
        if words[0] == "worker":  # it has signal handlers and children of its own
            code, said = self._run_file(["-m", "holdfast", *words])
        else:
            code, said = self._run_holdfast(words) if program == "holdfast" else self._run_file(words)
        assert code == 0, f"{line}\n{said}"
        if ids := _ID.findall(said):
            self._last_id = ids[0]

    def _start_worker(self, line: str) -> None:
        words = shlex.split(line)[1:]
        command, environment = [sys.executable, "-m", "holdfast", *words], os.environ | self._environment
        self._workers.append(subprocess.Popen(command, cwd=self._folder, env=environment, stderr=subprocess.DEVNULL))

    def _kill_workers(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self._workers.clear()

    def _run_holdfast(self, words: list[str]) -> tuple[int, str]:
        """Run the command line in this process: a page has many commands, and an interpreter for each takes long."""
        self._close_app()
        before = set(sys.modules)
        with contextlib.chdir(self._folder):
            done = CliRunner().invoke(standalone, words, env=self._environment, prog_name="holdfast")
        for module in set(sys.modules) - before:
            if str(self._folder) in str(getattr(sys.modules[module], "__file__", "")):
                del sys.modules[module]
        return done.exit_code, done.output

    def _run_file(self, words: list[str]) -> tuple[int, str]:
        done = subprocess.run(  # noqa: PLW1510 - the caller looks at the exit code
            [sys.executable, *words],
            cwd=self._folder,
            env=os.environ | self._environment,
            capture_output=True,
            text=True,
            timeout=30,
        )
        return done.returncode, done.stdout + done.stderr
