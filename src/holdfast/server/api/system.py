"""The system: which release and store this is, how large its tables are, and what its services do."""

from holdfast.release import RELEASE
from holdfast.resources.service import ServiceList
from holdfast.resources.system import SystemInfo, TableInfo, TableList
from holdfast.server.roles import Permission
from holdfast.server.routing import Routes, Seen
from holdfast.stores.diagnosis import TableSize

routes = Routes("system")

_COUNTED = 10_000


@routes.get("/system", Permission.LOOK, whole=True, summary="Read the system")
async def read_system(client: Seen) -> SystemInfo:
    """Read which release this is, and what store lies behind it."""
    found = await client.figures.database()
    return SystemInfo(
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
async def list_tables(client: Seen) -> TableList:
    """Count the rows of each table, at most 10,000 of them, and read how old the oldest is and what the table takes."""
    return TableList(tables=[_table(row) for row in await client.figures.tables()])


@routes.get("/services", Permission.LOOK, whole=True, summary="List services")
async def list_services(client: Seen) -> ServiceList:
    """Read how every service is set, what it did under the current leader, and which process leads."""
    return ServiceList(services=await client.services.list(), leaders=await client.services.leaders())


def _table(row: TableSize) -> TableInfo:
    return TableInfo(
        name=row.name,
        rows=min(row.rows, _COUNTED),
        capped=row.rows > _COUNTED,
        oldest=row.oldest,
        size_bytes=row.size,
    )
