"""What people change at run time, and what services tell of themselves."""

from datetime import timedelta

import msgspec
import pytest

from holdfast.stores.cluster import Override, ServiceReport
from holdfast.stores.store import Store
from tests.support import raw
from tests.support.clock import Clock


@pytest.fixture(autouse=True)
async def _without_settings(store: Store) -> None:
    for table in ("overrides", "service_reports"):
        await raw.execute(store, f"DELETE FROM holdfast.{table}")


async def test_a_setting_is_kept_with_who_and_why(store: Store, clock: Clock) -> None:
    await store.set_override("services.promotion.batch", "100", actor="ada", reason="too many at once")
    assert await store.list_overrides("services.") == [
        Override("services.promotion.batch", "100", "ada", "too many at once", clock.now)
    ]


async def test_the_last_change_counts(store: Store, clock: Clock) -> None:
    await store.set_override("services.promotion.batch", "100", actor="ada", reason="more")
    await clock.advance(timedelta(seconds=5))
    await store.set_override("services.promotion.batch", "200", actor=None, reason=None)
    assert await store.list_overrides("") == [Override("services.promotion.batch", "200", None, None, clock.now)]


async def test_settings_are_found_by_how_their_path_begins(store: Store) -> None:
    for path in (
        "services.promotion.batch",
        "services.lane_counts.enabled",
        "maintenance.a%",
        "maintenance_b",
        "Services.x",
    ):
        await store.set_override(path, "true", actor=None, reason=None)
    assert [row.path for row in await store.list_overrides("services.")] == [
        "services.lane_counts.enabled",
        "services.promotion.batch",
    ]
    assert [row.path for row in await store.list_overrides("maintenance.")] == ["maintenance.a%"]
    assert await store.list_overrides("m%") == []


async def test_a_setting_goes_back_once(store: Store) -> None:
    await store.set_override("services.promotion.batch", "100", actor=None, reason=None)
    assert await store.reset_override("services.promotion.batch")
    assert not await store.reset_override("services.promotion.batch")
    assert await store.list_overrides("") == []


@pytest.mark.parametrize("value", ['{"hours":{"tz":"Europe/Berlin","window":[120,240]}}', "0.5", "false", '"text"'])
async def test_a_value_is_read_as_it_was_written(store: Store, value: str) -> None:
    await store.set_override("x", value, actor=None, reason=None)
    (row,) = await store.list_overrides("x")
    assert msgspec.json.decode(row.value) == msgspec.json.decode(value)


async def test_services_tell_what_they_did_and_the_last_word_counts(store: Store, clock: Clock) -> None:
    await store.report_services(
        [ServiceReport("promotion", "a", None, 1, 2, 3, 4, 5), ServiceReport("rollups", "a", None, 1, 0, 0, 0, 0)]
    )
    await clock.advance(timedelta(seconds=10))
    last = ServiceReport("promotion", "b", None, 10, 20, 30, 40, 50, "StoreError: gone")
    await store.report_services([last])
    promotion, rollups = await store.list_services()
    assert promotion == msgspec.structs.replace(last, at=clock.now)
    assert (rollups.name, rollups.holder, rollups.at) == ("rollups", "a", clock.now - timedelta(seconds=10))
    await store.report_services([])
    assert len(await store.list_services()) == 2
