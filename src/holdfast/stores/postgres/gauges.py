"""How long the lanes are, on PostgreSQL."""

from holdfast.stores.postgres import rows
from holdfast.stores.postgres.jobs import COUNT_CAP
from holdfast.stores.postgres.role import Role
from holdfast.stores.values import LaneGauge


class PostgresGauges(Role):
    """The verbs of `UpkeepStore` that measure."""

    async def measure_lanes(self) -> list[LaneGauge]:
        await self.fetch("measure_lanes", COUNT_CAP)
        return await self.read_gauges()

    async def read_gauges(self) -> list[LaneGauge]:
        return [
            LaneGauge(queue, priority, rows.state(state), jobs, capped, oldest_at, measured_at)
            for queue, priority, state, jobs, capped, oldest_at, measured_at in await self.fetch(
                "read_gauges", COUNT_CAP
            )
        ]
