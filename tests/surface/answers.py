"""What commands print for programs: the keys and types of their JSON, and the heads of their CSV."""

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from holdfast import Context, Holdfast, Pipeline, phase
from holdfast.cli.main import command
from holdfast.stores.cluster import LockRequest
from tests.server.furnished import furnish, furnished_app
from tests.support.workers import BRISK, drained
from tests.surface.commands import every_command

# Every command with --json. Words in capitals stand for what the store was furnished with. Those that look come before
# those that change something.
COMMANDS = """
version
budgets list
budgets show ai
budgets spend ai
budgets lost ai
budgets ledger ai
config check
config check WRONG
config show
doctor
dead-letters list
dead-letters show GROUP
dead-letters export -
failures
escalations list
escalations show ESCALATION
jobs list
jobs export
jobs items PIPELINE
jobs logs PIPELINE
jobs show PIPELINE
jobs show FAILED
jobs wait PIPELINE
jobs watch PIPELINE
jobs why WAITS
limits list
limits show hosts
locks list
migrate status
migrate plan
migrate up
queues list
queues list --wide
queues show high
schedules list
schedules next nightly
schedules fires nightly
schedules maintenance list
schedules maintenance start release --days sun
services list
stats
kinds list
top
webhooks list
workers list
enqueue shoot
dead-letters replay GROUP --yes
dead-letters purge GROUP --yes
bulk list
bulk show 1
bulk pause 1
bulk resume 1
bulk cancel 1
escalations snooze ESCALATION --for 1h
escalations ack ESCALATION
escalations test ops
jobs clone FAILED token=x
jobs show 1
jobs priority WAITS 3
jobs reschedule WAITS --delay 1h
jobs cancel WAITS
jobs cancel WAITS PIPELINE
jobs retry FAILED
jobs delete PIPELINE
locks release edition --yes
prune
config set limits.hosts.concurrency 5 --reason slow
config reset limits.hosts.concurrency
queues limit high 3
queues pause high
queues resume high
queues purge high --yes
tokens create --name ci --role viewer --queue high
tokens list
tokens revoke TOKEN
webhooks enable ENDPOINT
workers drain inst-1
bench --jobs 100 --rounds 1 --only insert
move SOURCE TARGET
"""
# What comes out depends on the machine, or on nothing that has a key.
_EXCEPTIONS = {"jobs tail": "an event a line, as `jobs watch`"}
_SCHEMAS = ("arguments",)  # whose keys are those of tasks
_TYPES = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null", dict: "object"}


def describe_answers(folder: Path) -> str:
    """Run every command on one furnished store, and write what comes."""
    known: dict[str, str] = {}
    texts = [f"# {path}\n{words}" for path, words in _EXCEPTIONS.items()]
    with contextlib.chdir(folder):  # no configuration file lies there
        shop = Shop(folder)
        for line in COMMANDS.strip().splitlines():
            text = "\n".join(_described_command(shop, line.split()))
            first = known.setdefault(text, line)
            texts.append(f"# {line}\n{text if first == line else f'as {first}'}")
    return "\n\n".join(texts) + "\n"


def commands_with_json(program: click.Group) -> Iterator[tuple[str, ...]]:
    """Go through the commands that have `--json`."""
    for path, found in every_command(program):
        if any("--json" in param.opts for param in found.params):
            yield path


def film_app(folder: Path) -> Holdfast:
    """Make an app on the furnished store of a folder, with a pipeline too."""

    def make(**options: Any) -> Holdfast:
        return Holdfast(f"sqlite:///{folder}/jobs.db", worker=BRISK, synchronous="normal", **options)

    app = furnished_app(make)

    @app.task(kind="film", queue="films")
    class Film(Pipeline):
        @phase
        async def encode(self, ctx: Context) -> dict[str, int]:
            ctx.log.info("begun")
            await ctx.progress(50, "half")
            async with ctx.items("reels", ["a", "b"]) as reels:
                await reels.each(lambda _: None)
            return {"frames": 24}

    return app


class Shop:
    """A furnished store with commands on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.app = film_app(folder)
        self.program = command(self.app, name="holdfast")
        self.words: dict[str, str] = {
            "SOURCE": f"sqlite:///{folder}/jobs.db",
            "TARGET": f"sqlite:///{folder}/other.db",
            "WRONG": f"{folder}/wrong.yaml",
            "TOKEN": "1",
            "ENDPOINT": "https://hooks.example.org/plain words",
        }
        assert isinstance(self.program, click.Group)
        asked = {" ".join(path) for path in commands_with_json(self.program)}
        ran = COMMANDS.strip().splitlines()
        missing = [path for path in asked - set(_EXCEPTIONS) if not any(line.startswith(path) for line in ran)]
        assert not missing, f"commands with --json that tests/surface/answers.py does not run: {missing}"
        (folder / "wrong.yaml").write_text("queues: {high: {priority: 70}}\n", encoding="utf-8")
        self.ask("migrate", "up")
        asyncio.run(self._furnish())

    async def _furnish(self) -> None:
        film_task: Any = self.app.tasks.get("film")
        async with self.app:
            film = await film_task.using(tags={"project_id": "7"}).enqueue()
            await drained(self.app)
            await furnish(self.app)
            (failed,) = [job for job in (await self.app.jobs.list()).jobs if job.kind == "sink"]
            (waits,) = [job for job in (await self.app.jobs.list()).jobs if job.kind == "nightly"]
            (group,) = (await self.app.dead_letters.list(kind="sink")).groups
            escalation = (await self.app.escalations.list(policy="ops")).escalations[0]
            for owner in ("a", "b"):
                asked = LockRequest("edition", owner, owner, "here/7", None, 12, 1)
                await self.app.store.take_lock(asked, lasts_ms=3_600_000, waits_ms=3_600_000)
        self.words |= {"PIPELINE": film.id, "FAILED": failed.id, "WAITS": waits.id}
        self.words |= {"GROUP": group.id, "ESCALATION": escalation.id}

    def ask(self, *arguments: str) -> str:
        """Run a command, and give what it printed."""
        chosen = dict.fromkeys(name for name in os.environ if name.startswith("HOLDFAST_"))
        given = [self.words.get(word, word) for word in arguments]
        result = CliRunner().invoke(self.program, given, env=chosen)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.stdout or result.stderr


def _described_command(shop: Shop, line: Sequence[str]) -> Iterator[str]:
    is_list = any("-o" in param.opts for param in _command(shop.program, line).params)
    if is_list:
        yield f"csv: {shop.ask(*line, '-o', 'csv').partition(chr(10))[0]}"
    found = [json.loads(document) for document in documents(shop.ask(*line, "--json"))]
    yield from _described(found)
    if is_list:
        rows = [json.loads(row) for row in shop.ask(*line, "-o", "jsonl").splitlines()]
        yield f"jsonl: {_name_of(found[0], rows)}"


def _name_of(document: Any, rows: Sequence[Any]) -> str:
    """Name the list of the document whose entries the lines are."""
    names = [name for name, value in document.items() if isinstance(value, list) and len(value) == len(rows)]
    told = [name for name in names if set(_described(document[name])) == set(_described(rows))]
    return f"an entry of {told[0]} a line" if told and rows else "other lines"


def documents(text: str) -> list[str]:
    """Cut what was printed into documents: one over several lines, or one a line."""
    is_one = text.lstrip().startswith("{\n") or text.lstrip().startswith("[\n")
    return [text] if is_one else text.splitlines()


def _described(found: Sequence[Any], name: str = "") -> Iterator[str]:
    """Write the types of values that stand in one place; a question mark says that some leave it out."""
    kinds = sorted({_TYPES.get(type(value), "list") for value in found} - {"object", "list"})
    objects = [value for value in found if isinstance(value, dict)]
    lists = [value for value in found if isinstance(value, list)]
    if kinds or not any((*objects, *lists)):
        empty = ["{}"] * bool(objects and not any(objects)) + ["[]"] * bool(lists and not any(lists))
        yield f"{name or '(all)'}: {' | '.join([*kinds, *empty])}"
    for key in dict.fromkeys(itertools.chain.from_iterable(objects)):
        values = ["a JSON Schema" if key in _SCHEMAS else value[key] for value in objects if key in value]
        mark = "?" if len(values) < len(objects) else ""
        yield from _described(values, f"{name}.{key}{mark}" if name else f"{key}{mark}")
    if any(lists):
        yield from _described(list(itertools.chain.from_iterable(lists)), f"{name}[]")


def _command(program: click.Command, line: Sequence[str]) -> click.Command:
    found = program
    for word in line:
        if not isinstance(found, click.Group):
            break
        found = found.commands[word]
    return found
