"""The system: which release and store this is, how large its tables are, and what its services do."""

from pydantic import Field

from holdfast.client.services import ServiceState
from holdfast.release import RELEASE
from holdfast.server.api.shape import Moment, Shape, Told
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


class LeaderShape(Shape):
    """Who holds an office, since when, and until when unless it is renewed."""

    office: str = Field(examples=["services"])
    holder: str = Field(examples=["worker-1/4711"])
    term: int = Field(examples=[3], description="Larger with every change of who holds it.")
    since: Moment = Field(examples=["2026-11-16T08:00:00Z"])
    until: Moment = Field(examples=["2026-11-16T09:30:10Z"])


class ServiceShape(Shape):
    """A service: how it is set, what people have changed of that, and what it told last."""

    name: str = Field(examples=["promote"])
    interval_s: float = Field(examples=[1.0])
    batch: int | None = Field(examples=[1_000])
    enabled: bool = Field(examples=[True])
    changed: list[str] = Field(examples=[["interval"]])
    holder: str | None = Field(examples=["worker-1/4711"])
    told_at: Moment | None = Field(examples=["2026-11-16T09:30:00Z"])
    rounds: int = Field(examples=[5_400])
    scanned: int = Field(examples=[120_000])
    moved: int = Field(examples=[118_000])
    failures: int = Field(examples=[0])
    lag_ms: int = Field(examples=[12])
    error: Told | None = Field(examples=[None])


class ServiceList(Shape):
    """All services, and who runs them."""

    leaders: list[LeaderShape]
    services: list[ServiceShape]


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
    """Read how every service is set, what it told last, and who runs them."""
    leaders = [
        LeaderShape(office=row.office, holder=row.holder, term=row.term, since=row.since, until=row.until)
        for row in await sight.client.leaders()
    ]
    return ServiceList(leaders=leaders, services=[service_shape(state) for state in await sight.client.services()])


def table_shape(row: TableSize) -> TableShape:
    """Show a table."""
    return TableShape(
        name=row.name,
        rows=min(row.rows, _COUNTED),
        capped=row.rows > _COUNTED,
        oldest=row.oldest,
        size_bytes=row.size,
    )


def service_shape(state: ServiceState) -> ServiceShape:
    """Show a service."""
    report = state.report
    return ServiceShape(
        name=state.name,
        interval_s=state.cadence.interval_s,
        batch=state.cadence.batch,
        enabled=state.cadence.enabled,
        changed=list(state.changed),
        holder=None if report is None else report.holder,
        told_at=None if report is None else report.at,
        rounds=0 if report is None else report.runs,
        scanned=0 if report is None else report.scanned,
        moved=0 if report is None else report.moved,
        failures=0 if report is None else report.failures,
        lag_ms=0 if report is None else report.lag_ms,
        error=None if report is None else report.error,
    )
