"""What is done on the pages: each form is sent as a browser without scripts sends it."""

import re

import httpx2

from holdfast import Holdfast, JobState, public_id
from holdfast.client.audit import search_audit
from holdfast.client.schedule_rows import times_of
from holdfast.resources.schedule import ScheduleInfo
from holdfast.stores.access import AuditFilter
from holdfast.stores.cluster import LockRequest
from holdfast.stores.limits import LimitRow
from holdfast.stores.values import JobFilter
from tests.server.reading import read
from tests.server.touring import group_of, links, posted, sent, shown
from tests.support.builders import claim, enqueue, register
from tests.support.web import bearing, visit
from tests.support.workers import drained


def numbers(row: str) -> list[int]:
    return [int(found) for found in re.findall(r'<td class="n[^>]*>(\d+)</td>', row)]


async def test_queues_are_paused_and_changed(town: Holdfast, web: httpx2.AsyncClient) -> None:
    page = await shown(web, "/queues/high")
    assert "1 min" in page.text  # what is promised
    assert "shoot" in page.text
    assert any(tag == "svg" and given.get("class") == "histogram" for tag, given in page.tags)
    rows = {
        kind: numbers(row)
        for kind, row in re.findall(r"kind%3A(\w+)%20(.*?)</tr>", (await web.get("/queues/high")).text)
    }
    assert rows["sink"][:3] == [1, 1, 0]
    assert rows["stumble"][:3] == [0, 0, 1]  # it has not ended: it is tried again
    assert "2 jobs finished within 1h, 1 of them failed" in page.text
    assert "notifies chat, answer within 15 min" in page.text
    assert (await sent(web, "/queues/high", "/queues/high/resume")).status_code == 303
    answer = await sent(web, "/queues/high", "/queues/high/pause", reason="too hot")
    assert (answer.status_code, answer.headers["location"]) == (303, "/queues/high")
    row = next(queue for queue in await town.queues.list() if queue.name == "high")
    assert (row.paused_by, row.paused_reason) == ("local", "too hot")
    assert "too hot" in (await shown(web, "/queues/high")).text
    answer = await sent(web, "/queues/high", "/queues/high/set", field="max_workers", value="12", reason="sale")
    assert answer.status_code == 303
    assert {found.path: found.value for found in await town.settings.overrides()}["queues.high.workers.max"] == 12
    answer = await sent(web, "/queues/high", "/queues/high/set", field="max_workers", value='"many"')
    assert answer.status_code == 422
    resets = [form for form in (await shown(web, "/queues/high")).forms if form.action.endswith("/reset")]
    for form in resets:
        assert (await posted(web, form)).status_code == 303
    assert await town.settings.overrides() == []
    deeds = await town.store.list_audit(AuditFilter(action="set_queue_here"), limit=9)
    assert [(deed.status, deed.queue) for deed in deeds] == [(422, "high"), (303, "high")]


async def test_schedules_are_made_changed_and_run(town: Holdfast, web: httpx2.AsyncClient) -> None:
    page = await shown(web, "/schedules/nightly")
    assert "Europe/Berlin" in page.text
    assert page.text.count("Europe/Berlin") >= 6  # five times to come, each by the clocks of its zone
    page = await shown(web, "/schedules")
    (together,) = [given["aria-label"] for _, given in page.tags if "overlaps" in given.get("class", "")]
    assert together.endswith((": 2 at most", ": 1 at most"))  # by night on weekdays
    form = {"name": "weekly", "kind": "sink", "args": '{"token": "x"}', "cron": "0 4 * * mon"}
    assert (await sent(web, "/schedules", "/schedules", **form)).headers["location"] == "/schedules/weekly"
    assert (await sent(web, "/schedules", "/schedules", **form | {"name": "again", "args": "[1]"})).status_code == 422
    assert (
        await sent(web, "/schedules", "/schedules", **form | {"name": "again", "cron": "1--100000000 * * * *"})
    ).status_code == 422
    await sent(web, "/schedules/weekly", "/disable")
    assert not (await state_of(town, "weekly")).is_active
    await sent(web, "/schedules/weekly", "/enable")
    edit = {"cron": "", "every": "10m", "opens": "09:30", "closes": "16:00", "days": "mon,tue", "overlap": "queue"}
    await sent(web, "/schedules/weekly", "/edit", **edit, missed="skip")
    state = await state_of(town, "weekly")
    assert (state.times, state.overlap, state.missed) == (
        "every 10 min, 09:30-16:00 mon,tue UTC",
        "queue",
        "skip",
    )
    same = await sent(web, "/schedules/weekly", "/edit", overlap="queue", missed="skip")  # as the page has filled it in
    assert same.status_code == 303
    assert times_of(await state_of(town, "weekly")) == times_of(state)
    answer = await sent(web, "/schedules/weekly", "/run")
    job = await town.jobs.get(answer.headers["location"].rpartition("/")[2])
    assert (job.kind, job.schedule) == ("sink", "weekly")
    assert "by_hand" in (await shown(web, "/schedules/weekly")).text
    await sent(web, "/schedules/weekly", "/delete")
    assert "weekly" not in [state.name for state in await town.schedules.list()]


async def state_of(app: Holdfast, name: str) -> ScheduleInfo:
    return await app.schedules.get(name)


async def test_failures_are_grouped_retried_and_discarded(town: Holdfast, web: httpx2.AsyncClient) -> None:
    page = await shown(web, "/failures")
    assert {"sink", "stumble", "foreign"} <= set(page.text.split())
    retries = sorted(link for link in links(page) if link.startswith("/failures/retry?"))
    assert [re.findall(r"kind=(\w+)", link) for link in retries] == [["foreign"], ["sink"]]
    (discard,) = [link for link in links(page) if link.startswith("/failures/discard?")]
    assert "1 job fits now" in (await shown(web, retries[1])).text
    await sent(web, retries[1], "/failures/retry", rate="9/s", reason="mended")
    await sent(web, discard, "/failures/discard")
    assert "mended" in (await shown(web, "/failures")).text  # as a run that goes on
    assert (await web.get("/failures/nothing?kind=sink")).status_code == 404
    runs = await town.bulk.list()
    assert [(run.verb, run.which["kinds"], run.expected.jobs, run.actor) for run in runs] == [
        ("cancel", ["stumble"], 1, "local"),
        ("retry", ["sink"], 1, "local"),
    ]
    assert "No job of kind none" in (await shown(web, "/failures?kind=none")).text


async def test_jobs_that_are_tried_again_are_found_behind_many_that_never_failed(
    town: Holdfast, web: httpx2.AsyncClient
) -> None:
    task = next(task for task in town.tasks if task.name == "sink")
    await town.enqueue_many([task.call() for _ in range(400)])
    page = await shown(web, "/failures")
    assert any("/failures/discard?kind=stumble" in link for link in links(page))


async def test_dead_letters_are_replayed_edited_exported_and_purged(town: Holdfast, web: httpx2.AsyncClient) -> None:
    group = await group_of(town, "sink")
    answer = await sent(web, f"/dead-letters/replay?group={group}", "/dead-letters/replay", rate="5/s", reason="mended")
    assert answer.status_code == 303
    (run,) = await town.bulk.list()
    assert (run.verb, run.expected.jobs, run.per_second, run.reason) == ("retry", 1, 5.0, "mended")
    page = await shown(web, "/dead-letters")
    assert "mended" in page.text
    for verb in ("pause", "resume", "cancel"):
        (form,) = [
            form for form in (await shown(web, "/dead-letters")).forms if form.action.endswith(f"/{run.id}/{verb}")
        ]
        assert (await posted(web, form)).status_code == 303
    assert (await town.bulk.get(run.id)).state == "cancelled"
    job = (await town.jobs.list(JobFilter(kinds=("sink",), states=(JobState.FAILED,)))).jobs[0]
    answer = await sent(web, f"/dead-letters/{group}/{job.id}", "/edit", arguments='{"token": "other"}')
    new = await town.jobs.get(answer.headers["location"].rpartition("/")[2])
    assert (new.args, new.origin) == ({"token": "other"}, job.id)
    answer = await sent(web, f"/dead-letters/{group}/{job.id}", "/edit", arguments="{")
    assert answer.status_code == 422
    lines = (await web.get(f"/dead-letters/export?group={group}")).text.splitlines()
    assert len(lines) == 1
    assert job.id in lines[0]
    refused = await sent(web, f"/dead-letters/purge?group={group}", "/dead-letters/purge", confirmation="sink")
    assert refused.status_code == 422
    assert len(await town.bulk.list()) == 1
    await sent(web, f"/dead-letters/purge?group={group}", "/dead-letters/purge", confirmation=group)
    assert (await town.bulk.list())[0].verb == "delete"
    await sent(web, f"/dead-letters/{group}", f"/{job.id}/replay")
    assert (await town.jobs.get(job.id)).run == 2


async def test_escalations_are_answered_and_snoozed(town: Holdfast, web: httpx2.AsyncClient) -> None:
    page = await shown(web, "/escalations/1")
    assert "holdfast-ops-1-" in page.text  # the key that messages carry
    await sent(web, "/escalations/1", "/snooze", lasts="2h")
    assert (await town.escalations.get(1)).escalation.snoozed_by == "local"
    assert (await sent(web, "/escalations/1", "/snooze", lasts="soon")).status_code == 422
    await sent(web, "/escalations/1", "/ack", note="on it")
    row = (await town.escalations.get(1)).escalation
    assert (row.acked_by, row.note) == ("local", "on it")
    assert "on it" in (await shown(web, "/escalations/1")).text
    digest = (await shown(web, "/escalations")).text
    assert re.search("2 alarms so far: 2. stock is missing", digest)
    assert "theirs" not in digest.partition("Next digests")[2].partition("Policies")[0]  # that one was told at once
    answer = await sent(web, "/escalations", "/policies/ops/test")
    assert answer.status_code == 200
    assert "chat" in read(answer.text).text
    still_open = (await town.escalations.list(is_open=True)).escalations
    assert (await web.get("/escalations?show=open")).text.count("data-row") == len(still_open)


async def test_budgets_show_how_far_they_are_and_are_raised(town: Holdfast, web: httpx2.AsyncClient) -> None:
    page = await shown(web, "/budgets")
    assert "$8.50" in page.text
    assert "85 %" in page.text
    assert any(given.get("class") == "near" for _, given in page.tags)
    page = await shown(web, "/budgets/ai?by=kind")
    assert "shoot" in page.text
    (line,) = [given["points"] for tag, given in page.tags if tag == "polyline"]
    first, *_, before, last = (point.partition(",")[2] for point in line.split())
    assert (first, before, last) == ("2", "101", "101")  # it was whole, and 15 of 100 are left
    await sent(web, "/budgets/ai", "/set", amount="$20", reason="campaign")
    assert (await town.budgets.get("ai")).ceiling == 20.0
    assert (await sent(web, "/budgets/ai", "/set", amount="lots")).status_code == 422
    await sent(web, "/budgets/ai", "/reset")
    assert (await town.budgets.get("ai")).ceiling == 10.0
    token = next(form.fields["form_token"] for form in page.forms if form.method == "post")
    answer = await web.post(
        "/budgets/ai/settle",
        data={"job": public_id.encode(7), "claim": "1", "form_token": token},
        headers={"origin": "http://127.0.0.1"},
    )
    assert answer.status_code == 404


async def test_jobs_held_by_a_budget_and_a_limit_are_named(town: Holdfast, web: httpx2.AsyncClient) -> None:
    await town.queues.resume("high")
    await town.settings.set("budgets.ai.amount", "$8.51")
    task = next(task for task in town.tasks if task.name == "shoot")
    held = await town.enqueue(task.call())
    await drained(town)
    job = await town.jobs.get(held.id)
    assert job.state is JobState.HELD
    assert job.id in (await shown(web, "/budgets/ai")).text
    assert "budget ai" in (await shown(web, "/queues/high")).text


async def test_locks_are_taken_away_from_whoever_still_has_them(town: Holdfast, web: httpx2.AsyncClient) -> None:
    async with town.lock("edition", 42) as lock:
        page = await shown(web, "/limits")
        assert "edition" in page.text
        (form,) = [form for form in page.forms if form.action.endswith("/locks/release")]
        assert (await posted(web, form, token=str(lock.token + 1))).status_code == 404
        assert len(await town.locks.list()) == 1
    assert (await posted(web, form)).status_code == 404  # it is released
    assert "hosts" in (await shown(web, "/limits")).text


async def test_a_lock_is_taken_away(town: Holdfast, web: httpx2.AsyncClient) -> None:
    request = await town.store.take_lock(LockRequest("stuck", "o", "c", "host/1"), lasts_ms=60_000, waits_ms=1_000)
    assert request.token is not None
    (form,) = [form for form in (await shown(web, "/limits")).forms if form.action.endswith("/locks/release")]
    assert (await posted(web, form)).status_code == 303
    assert await town.locks.list() == []


async def test_the_fullest_keys_of_limits_are_shown(town: Holdfast, web: httpx2.AsyncClient) -> None:
    path = ("payload", "tenant")
    pace = LimitRow(name="pace", queue="default", path=path, throttle_us=86_400_000_000, burst=2)
    slots = LimitRow(name="slots", queue="default", path=path, concurrency=100)
    await town.store.define_limits([pace, slots], ["default"])
    for number in range(103):
        await enqueue(town.store, payload=f'{{"tenant": "<b>tenant {number % 52:02}"}}')
    await claim(town.store, await register(town.store))
    page = await shown(web, "/limits")
    assert "50+ keys in use, 50 used up" in page.text
    assert "0 of 2" in page.text
    assert "98 of 100" in page.text
    assert "when one of its jobs ends" in page.text
    assert "And more, which have more left." in page.text
    assert "<b>tenant 49" in page.text
    assert "tenant 51" not in page.text.partition("holders")[0], "the one with a start left"


async def test_workers_are_shown_and_drained(town: Holdfast, web: httpx2.AsyncClient) -> None:
    page = await shown(web, "/workers")
    assert "their-host" in page.text
    assert "48.2 MB" in page.text
    (form, *_) = [form for form in page.forms if form.action.endswith("/drain")]
    assert (await posted(web, form)).status_code == 303
    assert sum(row.drain_at is not None for row in await town.workers.list()) == 1
    assert "shutting down" in (await shown(web, "/workers")).text
    answer = await web.post(
        "/workers/999/drain", data={"form_token": form.fields["form_token"]}, headers={"origin": "http://127.0.0.1"}
    )
    assert answer.status_code == 404


async def test_tokens_are_shown_once_and_revoked(town: Holdfast, web: httpx2.AsyncClient) -> None:
    answer = await sent(web, "/system/tokens", "/system/tokens", name="ci", role="operator", queues="high theirs")
    (secret,) = set(re.findall(r"hf_[\w-]{40,}", answer.text))
    assert answer.headers["cache-control"] == "no-store"
    assert secret not in (await web.get("/system/tokens")).text
    made = await town.store.list_tokens("token")
    assert [(token.name, token.role, token.queues) for token in made] == [("ci", "operator", ("high", "theirs"))]
    async with visit(town) as other:
        assert (await other.get("/queues", headers=bearing(secret))).status_code == 200
        await sent(web, "/system/tokens", f"/{made[0].id}/revoke")
        assert (await other.get("/queues", headers=bearing(secret))).status_code == 401
    audit = (await shown(web, "/system/audit")).text
    assert "create_token_here" in audit
    assert "revoke_token_here" in audit
    assert secret not in (await web.get("/system/audit")).text


async def test_the_system_is_examined(town: Holdfast, web: httpx2.AsyncClient) -> None:
    text = (await shown(web, "/system")).text
    for word in ("schema", "SQLite", "high is paused", "promotion"):
        assert word in text, word
    tables = (await shown(web, "/system/tables")).text
    assert "history" in tables
    assert re.search(
        r"[\d.]+ [kM]B in all, with indexes\. The database file has [\d.]+ [kM]B, [\d.]+ k?B of it free", tables
    )
    assert "measured in small files only" not in tables
    assert re.search(r"SQLite [\d.]+, [\d.]+ [kM]B, [\d.]+ [kM]?B free", (await shown(web, "/system")).text)
    assert (
        "a month" in (await shown(web, "/system/tables")).text
        or "400 days" in (await shown(web, "/system/tables")).text
    )
    settings = (await web.get("/system/settings?changed=true")).text
    assert "queues.high" in settings
    assert "127.0.0.1:9/hook" not in settings  # the address of a Slack hook is a secret
    assert (await sent(web, "/system/webhooks", "/enable")).status_code == 303
    assert all(endpoint.enabled for endpoint in await town.webhooks.list())
    assert (await sent(web, "/system/settings", "/reset")).status_code == 303
    assert await town.settings.overrides() == []


async def test_the_audit_goes_page_by_page(town: Holdfast, web: httpx2.AsyncClient) -> None:
    form = next(form for form in (await shown(web, "/queues")).forms if form.action.endswith("/theirs/pause"))
    for _ in range(52):
        await posted(web, form)
    page = await shown(web, "/system/audit")
    assert sum("data-row" in given for _, given in page.tags) == 50
    older = next(given["href"] for tag, given in page.tags if tag == "a" and "before=" in given.get("href", ""))
    assert sum("data-row" in given for _, given in (await shown(web, older)).tags) == 2
    assert "Nothing fits" in (await shown(web, "/system/audit?actor=nobody")).text
    found = await search_audit(town.store, AuditFilter(actor="nobody"), limit=9, before=None, looked_at=20)
    assert not found.entries
    assert found.searched_to is not None
    seen: list[int] = []
    before: int | None = None
    for _ in range(9):
        part = await search_audit(town.store, AuditFilter(actor="local"), limit=9, before=before, looked_at=7)
        seen += [int(entry.id) for entry in part.entries]
        before = None if part.next is None else int(part.next)
        if before is None:
            break
    assert seen == [deed.id for deed in await town.store.list_audit(AuditFilter(), limit=99)]
