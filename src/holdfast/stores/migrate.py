"""Numbered migrations: what is there, what was applied, what is missing.

A migration is a file `NNNN_name.sql`; once released it is never edited, which its checksum guards. What lies in
`functions/` is not numbered: a function whose text has changed is made anew by the next `migrate up`.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from holdfast.errors import SchemaError
from holdfast.release import RELEASE
from holdfast.stores.sql import checksum, files, read

Purpose = Literal["serve", "work", "enqueue"]
"""What a role of PostgreSQL is for: everything, everything but tokens and the audit, or to call `enqueue_v1` alone."""

_FILE = re.compile(r"(\d{4})_(\w+)\.sql", re.ASCII)


class Migration(msgspec.Struct, frozen=True):
    """One numbered step."""

    version: int
    name: str
    sql: str
    checksum: str


class Function(msgspec.Struct, frozen=True):
    """A function of the database, made anew when its text changes."""

    name: str
    sql: str
    checksum: str


class AppliedFunction(msgspec.Struct, frozen=True):
    """A function as the database remembers it: its text, and the release that made it."""

    checksum: str
    release: str


class Applied(msgspec.Struct, frozen=True):
    """A step as the database remembers it."""

    version: int
    name: str
    checksum: str
    applied_at: datetime


class Plan(msgspec.Struct, frozen=True):
    """What `migrate up` would do."""

    applied: tuple[Applied, ...]
    migrations: tuple[Migration, ...]
    functions: tuple[Function, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the schema is what this release expects."""
        return not self.migrations and not self.functions


class Migrator(Protocol):
    """What a store offers to the command line."""

    async def plan(self, *, seed_views: bool = False) -> Plan:
        """Compare the database with this release; refuses a schema that is too new or was edited.

        `seed_views` asks for views in the seeds' own words (PostgreSQL only); once made, they are kept up to date.
        """

    async def up(self, *, seed_views: bool = False) -> Plan:
        """Apply what is missing, under a lock, and return what was done."""

    def sql(self, plan: Plan) -> str:
        """Print the statements of a plan, to be applied by other means."""


def load_migrations(package: str) -> tuple[Migration, ...]:
    """Read the numbered steps of a store, which must be numbered without a gap."""
    steps = []
    for file in files(package, "migrations"):
        match = _FILE.fullmatch(file.name)
        if match is None:
            message = f"{file.name}: expected a name like 0001_jobs.sql"
            raise ValueError(message)
        text = file.read_text(encoding="utf-8")
        steps.append(Migration(int(match[1]), match[2], text, checksum(text)))
    if [step.version for step in steps] != list(range(1, len(steps) + 1)):
        message = f"the migrations of {package} are not numbered 1, 2, 3, …"
        raise ValueError(message)
    return tuple(steps)


def load_functions(package: str) -> tuple[Function, ...]:
    """Read the functions of a store."""
    functions = []
    for file in files(package, "functions"):
        text = read(file)
        functions.append(Function(file.name.removesuffix(".sql"), text, checksum(text)))
    return tuple(functions)


def make_plan(
    applied: tuple[Applied, ...],
    migrations: tuple[Migration, ...],
    functions: tuple[Function, ...] = (),
    applied_functions: Mapping[str, AppliedFunction] | None = None,
) -> Plan:
    """Compare what the database remembers with what this release brings."""
    newest = max((step.version for step in applied), default=0)
    if newest > len(migrations):
        message = (
            f"the schema is at version {newest}, this release of Holdfast knows versions up to {len(migrations)}: "
            "install the release that made the schema, or a newer one"
        )
        raise SchemaError(message)
    for step, known in zip(sorted(applied, key=lambda step: step.version), migrations, strict=False):
        if (step.version, step.checksum) != (known.version, known.checksum):
            message = (
                f"migration {known.version:04d}_{known.name} differs from the one that was applied as "
                f"{step.version:04d}_{step.name}: restore the file, a released migration is never edited"
            )
            raise SchemaError(message)
    remembered = applied_functions or {}
    changed = tuple(function for function in functions if _is_outdated(function, remembered.get(function.name)))
    return Plan(applied, migrations[len(applied) :], changed)


def _is_outdated(function: Function, applied: AppliedFunction | None) -> bool:
    """Whether to make a function anew; one that a newer release has made is left alone, it still serves this one."""
    if applied is None:
        return True
    return applied.checksum != function.checksum and _numbers(applied.release) <= _numbers(RELEASE)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release)[:3])


def require_current(plan: Plan, url: str) -> None:
    """Refuse to work on a schema that lacks something."""
    if plan.is_empty:
        return
    missing = [f"{step.version:04d}_{step.name}" for step in plan.migrations]
    missing += [f"function {function.name}" for function in plan.functions]
    at = len(plan.applied)
    message = (
        f"the schema at {url} is at version {at}, this release of Holdfast needs version {at + len(plan.migrations)} "
        f"(missing: {', '.join(missing)}): run `holdfast migrate up`"
    )
    raise SchemaError(message)
