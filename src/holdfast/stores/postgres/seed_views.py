"""The views of `seed_views.sql`: in a schema of their own beside the store's, made when somebody asks for them."""

import re
from importlib import resources

from holdfast.errors import InvalidValue
from holdfast.names import SCHEMA_BYTES
from holdfast.stores.migrate import AppliedFunction, Function, make_plan
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.role import QUERIES
from holdfast.stores.sql import checksum, in_schema, quoted

_TEXT = resources.files("holdfast.stores.postgres").joinpath("seed_views.sql").read_text(encoding="utf-8")
SEED_VIEWS = Function("seed_views", _TEXT, checksum(_TEXT))
_OWN_SCHEMA = re.compile(r"\bholdfast_seed\b")
_ENDING = "_seed"


def schema_of_views(schema: str) -> str:
    """Name the schema of the views of a store: `holdfast_seed`, unless the store's is called otherwise."""
    name = f"{schema}{_ENDING}"
    if len(name.encode()) > SCHEMA_BYTES:
        longest = SCHEMA_BYTES - len(_ENDING)
        message = f"seed views: expected a schema of at most {longest} bytes, so that theirs can be called "
        message += f"{name!r}, got {len(schema.encode())} bytes; choose a shorter `schema`"
        raise InvalidValue(message)
    return name


def spelled(sql: str, schema: str) -> str:
    """Spell both schemas."""
    return in_schema(_OWN_SCHEMA.sub(lambda _: quoted(schema_of_views(schema)), sql), schema)


async def outdated(connection: Connection, schema: str, *, asked: bool) -> tuple[Function, ...]:
    """Say whether the views are to be made: they are asked for and missing, or they are there with another text."""
    if asked:
        schema_of_views(schema)  # which refuses a name that is too long
    if not await connection.fetchval(QUERIES["has_seed_views"], f"{schema}{_ENDING}"):
        return (SEED_VIEWS,) if asked else ()
    # Views need their tables, so the store has been migrated and remembers what it was given.
    found = await connection.fetch(in_schema(QUERIES["applied_functions"], schema))
    remembered = {row["name"]: AppliedFunction(row["checksum"], row["release"]) for row in found}
    return make_plan((), (), (SEED_VIEWS,), remembered).functions
