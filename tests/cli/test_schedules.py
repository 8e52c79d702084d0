"""`schedules`: what fires when, what came of it, and every change that people make."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast import public_id
from holdfast.schedules import Outcome, Schedule, plan_of
from holdfast.stores.cluster import Fire
from tests.cli.conftest import Shop
from tests.support.builders import new_job

NOMINAL = datetime(2026, 3, 4, 3, tzinfo=UTC)


def plan(**options: Any) -> str:
    """What a worker publishes of a schedule."""
    schedule = Schedule(name="x", kind="send_email", **options)
    job = new_job(0, kind="send_email", queue="high", payload='{"to":"a"}')
    return msgspec.json.encode(plan_of(schedule, job)).decode()


async def published(store: Any) -> None:
    """Publish two schedules as a program does, and store one as a person does."""
    nightly, often = plan(cron="0 3 * * *", tz="Europe/Berlin"), plan(every="5m", overlap="queue", missed="all")
    await store.define_schedules({"nightly": nightly, "often": often}, ["send_email"])
    await store.store_schedule("stored", plan(cron="0 0 1 1 *"), actor="ada")


async def fired(store: Any) -> list[int]:
    """Fire one nominal time and leave the next one out."""
    ids: list[int] = await store.take_ids(1)
    fires = [
        Fire(NOMINAL, Outcome.ENQUEUED, new_job(ids[0], kind="send_email")),
        Fire(NOMINAL + timedelta(days=1), Outcome.MAINTENANCE, None, "closed until 2026-03-05 04:00 UTC"),
    ]
    await store.fire_schedule("nightly", 1, fires, overlap="queue", next_fire=None)
    return ids


def rows(text: str) -> Sequence[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def listed(shop: Shop, name: str) -> dict[str, Any]:
    found = json.loads(shop.ok("schedules", "list", "--json"))["schedules"]
    (one,) = [entry for entry in found if entry["name"] == name]
    assert isinstance(one, dict)
    return one


def test_no_schedule_is_known(shop: Shop) -> None:
    result = shop("schedules", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("no schedule is known yet")
    assert json.loads(shop.ok("schedules", "list", "--json")) == {"schedules": []}


def test_the_list_says_what_fires_when(shop: Shop) -> None:
    shop.on_store(published)
    shop.on_store(fired)
    shop.ok("schedules", "disable", "often", "--actor", "alice")
    heading, nightly, often, stored = rows(shop.ok("schedules", "list"))
    assert heading == ["SCHEDULE", "KIND", "TIMES", "STATUS", "LAST", "NEXT"]
    assert nightly[:2] == ["nightly", "send_email"]
    assert "Europe/Berlin" in nightly[2]
    assert nightly[3:5] == ["enabled", "2026-03-05T03:00:00Z"]
    assert nightly[5] > "2026"
    assert (often[0], often[3], often[5]) == ("often", "disabled by alice", "")
    assert often[2].startswith("every 5 min")
    assert stored[0] == "stored"


def test_json_has_everything(shop: Shop) -> None:
    shop.on_store(published)
    nightly, often = listed(shop, "nightly"), listed(shop, "often")
    expected: dict[str, Any] = {
        "kind": "send_email",
        "queue": "high",
        "args": {"to": "a"},
        "cron": "0 3 * * *",
        "every_ms": None,
        "tz": "Europe/Berlin",
        "overlap": "skip",
        "missed": "once",
        "enabled": True,
        "withdrawn": False,
        "origin": "code",
        "changed": [],
        "changed_by": None,
        "last_fire": None,
    }
    assert {key: nightly[key] for key in expected} == expected
    assert nightly["next_fire"].endswith(":00:00Z")
    assert (often["every_ms"], often["overlap"], often["missed"]) == (300_000, "queue", "all")
    assert listed(shop, "stored")["origin"] == "stored"


def test_what_is_withdrawn_is_shown_and_fires_no_more(shop: Shop) -> None:
    shop.on_store(published)
    shop.on_store(lambda store: store.define_schedules({}, ["send_email"]))
    assert rows(shop.ok("schedules", "list"))[1][3] == "withdrawn"
    assert (listed(shop, "nightly")["withdrawn"], listed(shop, "nightly")["next_fire"]) == (True, None)
    result = shop("schedules", "next", "nightly")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "does not fire" in result.stderr


def test_next_shows_both_clocks(shop: Shop) -> None:
    shop.on_store(published)
    heading, *times = rows(shop.ok("schedules", "next", "Nightly", "--count", "3"))
    assert heading == ["UTC", "Europe/Berlin"]
    assert len(times) == 3
    utc, local = (datetime.fromisoformat(text) for text in times[0])
    assert utc == local
    assert (local.hour, local.minute) == (3, 0)
    answer = json.loads(shop.ok("schedules", "next", "nightly", "--count", "3", "--json"))
    assert answer == {"schedule": "nightly", "times": [time for time, _ in times]}


def test_fires_show_what_came_of_each_time(shop: Shop) -> None:
    shop.on_store(published)
    (job_id,) = shop.on_store(fired)
    heading, closed, made = rows(shop.ok("schedules", "fires", "nightly"))
    assert heading == ["TIME", "OUTCOME", "JOB", "NOTE"]
    assert closed == ["2026-03-05T03:00:00Z", "maintenance", "", "closed until 2026-03-05 04:00 UTC"]
    assert made == ["2026-03-04T03:00:00Z", "enqueued", public_id.encode(job_id), ""]
    (one,) = json.loads(shop.ok("schedules", "fires", "nightly", "--limit", "1", "--json"))["fires"]
    assert (one["time"], one["outcome"], one["job"]) == ("2026-03-05T03:00:00Z", "maintenance", None)
    made_json = json.loads(shop.ok("schedules", "fires", "nightly", "--json"))["fires"][1]
    assert made_json["job"] == public_id.encode(job_id)


def test_run_makes_a_job_now_and_prints_its_id(shop: Shop) -> None:
    shop.on_store(published)
    job = shop.ok("schedules", "run", "nightly").strip()
    shown = json.loads(shop.ok("jobs", "show", job, "--json"))
    assert (shown["kind"], shown["queue"], shown["state"]) == ("send_email", "high", "queued")
    assert json.loads(shop.ok("schedules", "fires", "nightly", "--json"))["fires"][0]["outcome"] == "by_hand"
    assert listed(shop, "nightly")["last_fire"] is None


def test_disable_enable_and_reset(shop: Shop) -> None:
    shop.on_store(published)
    assert shop.ok("schedules", "disable", "nightly", "--actor", "alice") == "nightly disabled\n"
    changed = listed(shop, "nightly")
    assert (changed["enabled"], changed["changed"], changed["changed_by"]) == (False, ["enabled"], "alice")
    assert shop.ok("schedules", "enable", "nightly").startswith("nightly enabled; next at 20")
    assert listed(shop, "nightly")["enabled"] is True
    assert shop.ok("schedules", "reset", "nightly").startswith("nightly reset; next at 20")
    assert listed(shop, "nightly")["changed"] == []


def test_delete_forgets_what_no_program_defines(shop: Shop) -> None:
    shop.on_store(published)
    assert shop.ok("schedules", "delete", "stored") == "stored is deleted\n"
    refused = shop("schedules", "delete", "nightly")
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert "apps define it, so that it would come back; disable it instead" in refused.stderr


def test_maintenance_starts_and_ends(shop: Shop) -> None:
    start = ("schedules", "maintenance", "start")
    started = shop.ok(*start, "move", "--from", "02:00", "--to", "04:00", "--days", "sun", "--actor", "al")
    assert started == "no schedule fires 02:00-04:00 sun UTC\n"
    (row,) = shop.on_store(lambda store: store.list_overrides("maintenance."))
    assert (row.path, row.actor) == ("maintenance.move", "al")
    dates = ("--date", "2026-12-24", "--date", "2026-12-25")
    feast = json.loads(shop.ok(*start, "feast", *dates, "--tz", "Asia/Tokyo", "--json"))
    assert (feast["name"], feast["hours"]) == ("feast", "on 2026-12-24, 2026-12-25 Asia/Tokyo")
    windows = json.loads(shop.ok("schedules", "maintenance", "list", "--json"))["windows"]
    assert [window["name"] for window in windows] == ["feast", "move"]
    assert rows(shop.ok("schedules", "maintenance", "list"))[1][:2] == ["feast", feast["hours"]]
    assert shop.ok("schedules", "maintenance", "end", "move") == "maintenance move has ended\n"
    missing = shop("schedules", "maintenance", "end", "move")
    assert (missing.exit_code, missing.stdout) == (3, "")
    assert "there is no maintenance window 'move'" in missing.stderr


def test_half_a_window_is_none(shop: Shop) -> None:
    result = shop("schedules", "maintenance", "start", "move", "--from", "02:00")
    assert result.exit_code == 2
    assert "--from and --to belong together" in result.stderr
    nothing = shop("schedules", "maintenance", "start", "move")
    assert nothing.exit_code == 2
    assert "expected a window, days or dates" in nothing.stderr


def test_a_name_that_no_schedule_has(shop: Shop) -> None:
    shop.on_store(published)
    for verb in ("next", "fires", "run", "enable", "disable", "reset", "delete"):
        missing = shop("schedules", verb, "nigthly")
        assert (missing.exit_code, missing.stdout) == (3, ""), verb
        assert "there is no schedule 'nigthly'; known are nightly, often, stored" in missing.stderr
