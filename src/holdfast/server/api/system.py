"""The system: which release and store this is, how large its tables are, and what its services do."""

from pydantic import Field

from holdfast.release import RELEASE
from holdfast.resources.service import ServiceList
from holdfast.server.api.shape import Moment, Shape
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen
from holdfast.stores.diagnosis import TableSize

routes = Routes("system")

_COUNTED = 10_000


class SystemShape(Shape):
    """What this server is, and the store behind it."""

    release: str = Field(examples=["0.7.0"])
    store: str = Field(examples=["PostgreSQL"])
    store_version: str = Field(examples=["18.4"])
    now: Moment = Field(description="The store's time.", examples=["2026-11-16T09:30:00Z"])
    history_until: Moment | None = Field(
        description="Until when history is prepared.", examples=["2026-12-07T00:00:00Z"]
    )
    is_pooled: bool = Field(description="Whether a pooler stands before the database.", examples=[False])
    size_bytes: int | None = Field(description="How large the file of SQLite is.", examples=[None])
    free_bytes: int | None = Field(description="How much of that file nothing uses.", examples=[None])


class TableShape(Shape):
    """How many rows a table has, and how old the oldest is; `capped` says "this many or more"."""

    name: str = Field(examples=["history"])
    rows: int = Field(examples=[10_000])
    capped: bool = Field(examples=[True])
    oldest: Moment | None = Field(examples=["2026-11-09T09:30:00Z"])
    size_bytes: int | None = Field(
        description="What it takes with its indexes; null in a large file of SQLite.", examples=[81_920]
    )


class TableList(Shape):
    """The tables of the store."""

    tables: list[TableShape]


@routes.get("/system", Permission.LOOK, whole=True, summary="Read the system")
async def read_system(sight: Seen) -> SystemShape:
    """Read which release this is, and what store lies behind it."""
    found = await sight.store.diagnose()
    return SystemShape(
        release=RELEASE,
        store=found.software,
        store_version=".".join(map(str, found.version)),
        now=found.now,
        history_until=found.history_until,
        is_pooled=found.is_pooled,
        size_bytes=found.size,
        free_bytes=found.free,
    )


@routes.get("/system/tables", Permission.LOOK, whole=True, summary="Measure the tables")
async def list_tables(sight: Seen) -> TableList:
    """Count the rows of each table, at most 10,000 of them, and read how old the oldest is and what the table takes."""
    return TableList(tables=[table_shape(row) for row in await sight.store.measure_tables()])


@routes.get("/services", Permission.LOOK, whole=True, summary="List services")
async def list_services(sight: Seen) -> ServiceList:
    """Read how every service is set, what it did under the current leader, and which process leads."""
    return ServiceList(services=await sight.services.list(), leaders=await sight.services.leaders())


def table_shape(row: TableSize) -> TableShape:
    """Show a table."""
    return TableShape(
        name=row.name,
        rows=min(row.rows, _COUNTED),
        capped=row.rows > _COUNTED,
        oldest=row.oldest,
        size_bytes=row.size,
    )
