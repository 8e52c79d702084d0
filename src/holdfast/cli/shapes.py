"""What `--json` prints of commands that answer with no resource: prune, export, migrate and version.

Fields may be added, none is renamed or dropped. Times are ISO 8601 in UTC. What is not known is null.
"""

from datetime import datetime

import msgspec

from holdfast.stores.migrate import Plan


class PrunedShape(msgspec.Struct, frozen=True):
    """`prune --json`."""

    deleted: int


class ExportedShape(msgspec.Struct, frozen=True):
    """`dead-letters export --json` and `jobs export --json`, printed beside the file."""

    exported: int


class StepShape(msgspec.Struct, frozen=True):
    """One migration; `applied_at` is null while it is pending."""

    version: int
    name: str
    state: str
    applied_at: datetime | None


class SchemaShape(msgspec.Struct, frozen=True):
    """`migrate status|plan|up --json`; `functions` are those that have to be made anew."""

    store: str
    version: int
    latest: int
    current: bool
    migrations: list[StepShape]
    functions: list[str]


class VersionShape(msgspec.Struct, frozen=True):
    """`version --json`."""

    holdfast: str
    python: str
    platform: str


def schema(store: str, plan: Plan) -> SchemaShape:
    """Describe a schema and what it lacks."""
    applied = [StepShape(step.version, step.name, "applied", step.applied_at) for step in plan.applied]
    pending = [StepShape(step.version, step.name, "pending", None) for step in plan.migrations]
    return SchemaShape(
        store=store,
        version=len(applied),
        latest=len(applied) + len(pending),
        current=plan.is_empty,
        migrations=applied + pending,
        functions=[function.name for function in plan.functions],
    )
