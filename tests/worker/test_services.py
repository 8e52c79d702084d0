"""Services of an app whose worker runs: set and reset while they run, and what is refused."""

import pytest

from holdfast import Holdfast, InvalidValue, Service
from holdfast.services import runner
from tests.support.wait import until
from tests.support.workers import MakeApp, working
from tests.worker.scheduling import emptied


@pytest.fixture
def alert(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let services be set, and tell what they did, many times a second."""
    monkeypatch.setattr(runner, "_REFRESH_S", 0.1)
    monkeypatch.setattr(runner, "_REPORT_S", 0.1)


async def runs(app: Holdfast, name: str) -> int:
    return next(service.rounds for service in await app.services.list() if service.name == name)


@pytest.mark.usefixtures("alert")
async def test_services_are_set_and_reset_while_they_run(make_app: MakeApp) -> None:
    async with make_app(services={"rollups": Service(interval="1h"), "lane_counts": Service(enabled=False)}) as app:
        await emptied(app)
        async with working(app):

            async def has_begun() -> bool:
                return await runs(app, "rollups") == 1

            await until(has_begun, "the services have begun")
            await app.services.set("rollups", interval="20ms", actor="eve", reason="to see it")

            async def goes_fast() -> bool:
                return await runs(app, "rollups") > 10

            await until(goes_fast, "it folds all the time")
            (rollups,) = [service for service in await app.services.list() if service.name == "rollups"]
            assert (rollups.interval_ms, rollups.batch, rollups.changed) == (20, 500, ["interval"])
            assert await runs(app, "lane_counts") == 0
            await app.services.set("lane_counts", enabled=True)

            async def measures() -> bool:
                return await runs(app, "lane_counts") > 0

            await until(measures, "gauges are read")
            assert (await app.services.reset("rollups")).changed == []
            (leader,) = await app.services.leaders()
            assert leader.holder
        assert await app.services.leaders() == []  # who leaves says so


@pytest.mark.usefixtures("alert")
async def test_what_cannot_be_read_of_a_service_is_left_out(make_sqlite_file: MakeApp) -> None:
    async with make_sqlite_file() as app:
        for path, value in (
            ("services.rollups.interval", '"soon"'),
            ("services.rollups.interval_s", "5"),
            ("services.rollups.nothing", "1"),
            ("services.nobody.batch", "1"),
        ):
            await app.store.set_override(path, value, actor=None, reason=None)
        async with working(app):
            await app.services.set("lane_counts", interval="20ms")

            async def measures() -> bool:
                return await runs(app, "lane_counts") > 5 and await runs(app, "rollups") > 0

            await until(measures, "all services run")


async def test_what_no_service_can_be_is_refused(memory_app: Holdfast) -> None:
    with pytest.raises(InvalidValue, match="expected one of promotion, schedules"):
        await memory_app.services.set("nobody", batch=5)
    with pytest.raises(InvalidValue, match="interval: expected from 10 ms to a day"):
        await memory_app.services.set("rollups", interval="1ms")
    with pytest.raises(InvalidValue, match="batch"):
        await memory_app.services.set("rollups", batch=0)
    with pytest.raises(InvalidValue, match="takes no batch"):
        await memory_app.services.set("lane_counts", batch=5)
    with pytest.raises(InvalidValue, match="expected one of promotion, schedules"):
        await memory_app.services.reset("nobody")
