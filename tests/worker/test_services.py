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
    async with make_app(services={"fold": Service(interval="1h"), "gauges": Service(enabled=False)}) as app:
        await emptied(app)
        async with working(app):

            async def has_begun() -> bool:
                return await runs(app, "fold") == 1

            await until(has_begun, "the services have begun")
            await app.services.set("fold", interval="20ms", actor="eve", reason="to see it")

            async def goes_fast() -> bool:
                return await runs(app, "fold") > 10

            await until(goes_fast, "it folds all the time")
            (fold,) = [service for service in await app.services.list() if service.name == "fold"]
            assert (fold.interval_ms, fold.batch, fold.changed) == (20, 500, ["interval"])
            assert await runs(app, "gauges") == 0
            await app.services.set("gauges", enabled=True)

            async def measures() -> bool:
                return await runs(app, "gauges") > 0

            await until(measures, "gauges are read")
            assert (await app.services.reset("fold")).changed == []
            (leader,) = await app.services.leaders()
            assert leader.holder
        assert await app.services.leaders() == []  # who leaves says so


@pytest.mark.usefixtures("alert")
async def test_what_cannot_be_read_of_a_service_is_left_out(make_sqlite_file: MakeApp) -> None:
    async with make_sqlite_file() as app:
        for path, value in (
            ("services.fold.interval", '"soon"'),
            ("services.fold.interval_s", "5"),
            ("services.fold.nothing", "1"),
            ("services.nobody.batch", "1"),
        ):
            await app.store.set_override(path, value, actor=None, reason=None)
        async with working(app):
            await app.services.set("gauges", interval="20ms")

            async def measures() -> bool:
                return await runs(app, "gauges") > 5 and await runs(app, "fold") > 0

            await until(measures, "all services run")


async def test_what_no_service_can_be_is_refused(memory_app: Holdfast) -> None:
    with pytest.raises(InvalidValue, match="expected one of promote, schedules"):
        await memory_app.services.set("nobody", batch=5)
    with pytest.raises(InvalidValue, match="interval: expected from 10 ms to a day"):
        await memory_app.services.set("fold", interval="1ms")
    with pytest.raises(InvalidValue, match="batch"):
        await memory_app.services.set("fold", batch=0)
    with pytest.raises(InvalidValue, match="takes no batch"):
        await memory_app.services.set("gauges", batch=5)
    with pytest.raises(InvalidValue, match="expected one of promote, schedules"):
        await memory_app.services.reset("nobody")
