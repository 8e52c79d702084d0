"""What some may know and do, and others not, where a route alone does not decide it."""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx2
import pytest

from holdfast import Budget, BudgetNotFound, Fatal, Holdfast, Limit, LimitNotFound, LockNotFound, Queue, public_id
from holdfast.resources.bulk import BulkVerb
from holdfast.server.principal import Principal
from holdfast.server.roles import Role
from holdfast.server.scoped.budgets import ScopedBudgets
from holdfast.server.scoped.limits import ScopedLimits
from holdfast.server.scoped.locks import ScopedLocks
from holdfast.stores.alarms import Alarm
from holdfast.stores.cluster import LockRequest
from holdfast.stores.limits import LimitRow
from holdfast.stores.values import JobFilter, WorkerProcess
from tests.support import raw
from tests.support.builders import claim, enqueue, lane, register
from tests.support.moments import Moments
from tests.support.wait import until
from tests.support.web import bearing, made_token, visit
from tests.support.workers import MakeApp, drained

RESUMING = ("/api/v1/bulk/{operation}/resume", "/jobs/bulk/{operation}/resume", "/dead-letters/bulk/{operation}/resume")


@pytest.mark.guards("api-run-role")
@pytest.mark.parametrize("path", RESUMING)
async def test_a_run_that_deletes_goes_on_for_admins_only(memory_app: Holdfast, path: str) -> None:
    run = await memory_app.client.bulk.start(BulkVerb.DELETE, JobFilter(kinds=("nothing",)))
    await memory_app.client.bulk.pause(run.id)
    async with visit(memory_app) as web:

        async def ask(role: str, path: str) -> httpx2.Response:
            secret = await made_token(memory_app, role)
            return await web.post(path.format(operation=run.id), headers=bearing(secret))

        refused = await ask("operator", path)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:holdfast:role")
        assert (await memory_app.client.bulk.get(run.id)).state == "paused"
        assert (await ask("admin", path)).status_code in (200, 303)
        assert (await ask("operator", path.replace("resume", "cancel"))).status_code in (200, 303), "that does no harm"


@pytest.mark.guards("scope-locks")
async def test_locks_are_seen_by_those_who_may_see_their_jobs(memory_app: Holdfast) -> None:
    @memory_app.task(queue="mine")
    async def one() -> None: ...

    @memory_app.task(queue="theirs")
    async def two() -> None: ...

    mine, theirs = await one.enqueue(), await two.enqueue()
    for name, job in (("a", mine.number), ("b", theirs.number), ("c", None)):
        request = LockRequest(name, name, name, "host/1", job_id=job)
        await memory_app.store.take_lock(request, lasts_ms=60_000, waits_ms=60_000)
    everything = ScopedLocks(memory_app.client, Principal("all", Role.ADMIN))
    some = ScopedLocks(memory_app.client, Principal("some", Role.ADMIN, frozenset({"mine"})))
    assert await everything.list() == await memory_app.locks.list()
    (lock,) = await some.list()
    assert (lock.name, lock.job) == ("a", mine.id)
    for other in await everything.list():
        if other != lock:
            with pytest.raises(LockNotFound):
                await some.release(other.name, other.token)
    assert await some.release(lock.name, lock.token) == lock
    assert [other.name for other in await everything.list()] == ["b", "c"]


@pytest.mark.guards("scope-limits")
async def test_of_limits_those_of_some_queues_see_the_slots_of_their_jobs(memory_app: Holdfast) -> None:
    store = memory_app.store
    idle = LimitRow(name="idle", queue="theirs", kinds=("sleep",), concurrency=1)
    shots = LimitRow(name="shots", kinds=("shoot",), concurrency=5)
    await store.define_limits([idle, shots], ["mine", "theirs"])
    mine = await enqueue(store, queue="mine", kind="shoot")
    await enqueue(store, queue="theirs", kind="shoot")
    await claim(store, await register(store), lane("mine"), lane("theirs"))
    everything = ScopedLimits(memory_app.client, Principal("all", Role.ADMIN))
    some = ScopedLimits(memory_app.client, Principal("some", Role.ADMIN, frozenset({"mine"})))
    assert await everything.list() == await memory_app.limits.list()
    assert [(limit.name, limit.taken, limit.maximum) for limit in await everything.list()] == [
        ("idle", 1, 1),
        ("shots", 2, 5),
    ]
    (limit,) = await some.list()
    assert (limit.name, limit.taken, limit.maximum, limit.available) == ("shots", 1, None, None)
    assert [holder.job for holder in limit.holders] == [public_id.encode(mine)]
    assert await everything.get("shots") == await memory_app.limits.get("shots")
    for refused in (some.get("shots"), some.set("shots", "concurrency", 1), some.reset("shots", "concurrency")):
        with pytest.raises(LimitNotFound):
            await refused


@pytest.mark.guards("scope-budgets")
async def test_budgets_are_seen_by_those_who_see_all_queues(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory(budgets=[Budget(name="ai", amount="$5", queue="mine")])
    async with app:
        await drained(app)
        everything = ScopedBudgets(app.client.budgets, Principal("all", Role.ADMIN))
        some = ScopedBudgets(app.client.budgets, Principal("some", Role.ADMIN, frozenset({"mine"})))
        assert await everything.list() == await app.budgets.list() == [await everything.get("ai")]
        assert (await everything.set("ai", "amount", "$6")).ceiling == 6.0
        assert (await everything.reset("ai", "amount")).ceiling == 5.0
        assert await some.list() == []
        assert (await some.ledger()).entries == []
        assert not await some.settle(7, 1)
        for refused in (some.get("ai"), some.spend("ai"), some.lost("ai"), some.set("ai", "amount", 1)):
            with pytest.raises(BudgetNotFound):
                await refused


@pytest.mark.guards("scope-why")
async def test_jobs_of_others_are_not_named_as_those_that_one_waits_for(
    make_sqlite_memory: MakeApp, moments: Moments
) -> None:
    app = make_sqlite_memory(
        limits=[
            Limit(name="one", kinds=["holds", "waits"], concurrency=1),
            Limit(name="row", kinds=["first", "second"], key="args.to", fifo=True),
        ]
    )
    go = asyncio.Event()
    for kind, queue in (("holds", "theirs"), ("waits", "mine"), ("first", "theirs"), ("second", "mine")):

        @app.task(kind=kind, queue=queue)
        async def work(to: str = "all") -> None:
            assert to
            await go.wait()

    async with app, visit(app) as web, asyncio.timeout(30):
        mine = bearing(await made_token(app, "viewer", queues=("mine",)))
        everything = bearing(await made_token(app, "viewer"))
        jobs = {kind: await app.tasks.get(kind).enqueue() for kind in ("holds", "first")}
        working = asyncio.create_task(app.run_worker(until="empty"))
        await moments.wait("begun", times=2)
        jobs |= {kind: await app.tasks.get(kind).enqueue() for kind in ("waits", "second")}

        async def are_held() -> bool:
            return {(await jobs[kind].get()).state for kind in ("waits", "second")} == {"held"}

        await until(are_held, "both are held")
        for other, job in (("holds", "waits"), ("first", "second")):
            for path in (f"/api/v1/jobs/{jobs[job].id}/why", f"/jobs/{jobs[job].id}"):
                shown, hidden = [(await web.get(path, headers=who)).text for who in (everything, mine)]
                assert jobs[other].id in shown, path
                assert jobs[other].id not in hidden, path
                assert f"({other})" not in hidden, path
        info = WorkerProcess(instance="i", host="h", pid=1, queues=("mine", "theirs"), concurrency=1)
        await app.store.register_worker(info, 60_000)
        for path in ("/api/v1/workers", "/workers"):
            shown, hidden = [(await web.get(path, headers=who)).text for who in (everything, mine)]
            assert "theirs" in shown
            assert "theirs" not in hidden
        go.set()
        await working


SECRET = "xsecretx"


@pytest.fixture
async def spread(make_sqlite_memory: MakeApp) -> AsyncIterator[Holdfast]:
    """Make an app in which one error has come up in two queues: twice in one, and then three times in the other."""
    app = make_sqlite_memory(queues=[Queue("theirs")])

    @app.task(queue="mine", queue_override=True, max_attempts=1)
    async def sink(word: str) -> None:
        raise Fatal(word)

    async with app:
        for queue, words in (("mine", ["ours"] * 2), ("theirs", [SECRET] * 3)):
            for word in words:
                await sink.using(queue=queue).enqueue(word)
            await drained(app)
        yield app


async def test_a_group_is_what_it_is_in_the_queues_that_one_may_see(spread: Holdfast) -> None:
    (whole,) = (await spread.dead_letters.list()).groups
    (part,) = (await spread.dead_letters.list(queue="mine")).groups
    assert (whole.seen, whole.queue, part.seen, part.left.jobs, part.error) == (5, "theirs", 2, 2, "ours")
    async with visit(spread) as web:
        mine = bearing(await made_token(spread, "admin", queues=("mine",)))
        theirs = bearing(await made_token(spread, "admin", queues=("theirs",)))
        nobody = bearing(await made_token(spread, "admin", queues=("elsewhere",)))
        everybody = bearing(await made_token(spread, "admin"))

        async def ask(who: dict[str, str], path: str) -> httpx2.Response:
            return await web.get(path.format(group=whole.id), headers=who)

        for who, seen, queue in ((mine, 2, "mine"), (theirs, 3, "theirs"), (everybody, 5, "theirs")):
            one = (await ask(who, "/api/v1/dead-letters/{group}")).json()
            assert (await ask(who, "/api/v1/dead-letters")).json()["groups"] == [one]
            assert (one["seen"], one["left"]["jobs"], one["queue"]) == (seen, seen, queue)
            page = (await ask(who, "/dead-letters/{group}")).text
            assert f"{seen} left of {seen} ever" in page
            page = (await ask(who, "/failures")).text
            assert f'data-label="Failed">{seen}<' in page
            assert f"when {seen} of sink failed" in page
            for verb in ("replay", "purge"):
                page = (await ask(who, f"/dead-letters/{verb}?group={{group}}")).text
                assert re.search(rf"\b{seen} jobs\b", page), page
            for path in ("/dead-letters/export?group={group}", "/api/v1/dead-letters/export?group={group}"):
                assert len((await ask(who, path)).text.splitlines()) == seen
        for path in ("/api/v1/dead-letters", "/api/v1/dead-letters/{group}", "/dead-letters/{group}", "/failures", "/"):
            assert SECRET not in (await ask(mine, path)).text, path
            assert SECRET in (await ask(everybody, path)).text, path
        one = (await ask(mine, "/api/v1/dead-letters/{group}")).json()
        assert one["last_at"] == (await ask(mine, "/api/v1/dead-letters/{group}/jobs")).json()["jobs"][0]["finished_at"]
        asked = ("/api/v1/dead-letters/{group}", "/dead-letters/{group}", "/dead-letters/export?group={group}&kind=x")
        for path in (*asked, "/dead-letters/replay?group={group}", "/api/v1/dead-letters/export?group={group}&kind=x"):
            assert (await ask(nobody, path)).status_code == 404, path


async def test_what_is_done_to_a_group_is_done_to_the_queues_that_one_may_see(spread: Holdfast) -> None:
    (whole,) = (await spread.dead_letters.list()).groups
    forms = {"group": whole.id, "confirmation": whole.id}
    async with visit(spread) as web:
        mine = bearing(await made_token(spread, "admin", queues=("mine",)))
        for path in (f"/api/v1/dead-letters/{whole.id}/replay", f"/api/v1/dead-letters/{whole.id}/purge"):
            run = (await web.post(path, headers=mine)).json()
            assert (run["expected"]["jobs"], run["which"]["queues"]) == (2, ["mine"])
        for path in ("/dead-letters/replay", "/dead-letters/purge"):
            assert (await web.post(path, headers=mine, data=forms)).status_code == 303
        assert all(operation.which["queues"] == ["mine"] for operation in await spread.bulk.list())
        nobody = bearing(await made_token(spread, "admin", queues=("elsewhere",)))
        for path in ("/dead-letters/replay", "/dead-letters/purge", f"/api/v1/dead-letters/{whole.id}/purge"):
            assert (await web.post(path, headers=nobody, data=forms)).status_code in (404, 422), path
        assert len(await spread.bulk.list()) == 4


@pytest.mark.guards("scope-escalation")
async def test_an_escalation_names_no_jobs_of_other_queues_that_failed_alike(spread: Holdfast) -> None:
    store = spread.store
    jobs = {job.id: job for job in (await spread.jobs.list(JobFilter())).jobs}
    own = next(job for job in jobs.values() if job.queue == "mine")
    await store.define_escalations(["ops"])
    for job in sorted(jobs.values(), key=lambda job: job.queue, reverse=True):  # the last ones are of the own queue
        alarm = Alarm(source="failed", title="t", policy="ops", queue=job.queue, kind="sink", job_id=job.number)
        await raw.raise_alarm(store, alarm)
        await store.fold_alarms({"ops": ("failed",)}, 1)
    (row,) = (await spread.escalations.list()).escalations
    assert (row.count, len(row.jobs), row.queue) == (5, 5, "mine")
    async with visit(spread) as web:
        for queues, count in ((("mine",), 2), (None, 5)):
            who = bearing(await made_token(spread, "operator", queues=queues))
            acked = await web.post(f"/api/v1/escalations/{row.id}/snooze", headers=who, json={"lasts": "1h"})
            one = (await web.get(f"/api/v1/escalations/{row.id}", headers=who)).json()["escalation"]
            (listed,) = (await web.get("/api/v1/escalations", headers=who)).json()["escalations"]
            assert (one["count"], len(one["jobs"])) == (count, count)
            assert (listed["jobs"], acked.json()["jobs"]) == (one["jobs"], one["jobs"])
            pages = [(await web.get(path, headers=who)).text for path in ("/escalations", f"/escalations/{row.id}")]
            for job in jobs.values():
                is_told = queues is None or job.queue == "mine"
                assert (job.id in pages[1]) == is_told
                assert is_told or job.id not in pages[0]
            assert own.id in pages[1]
        nobody = bearing(await made_token(spread, "operator", queues=("elsewhere",)))
        words = []
        for number in (row.id, "4711"):
            answer = await web.get(f"/api/v1/escalations/{number}", headers=nobody)
            words.append((answer.status_code, answer.json()["detail"].replace(number, "x")))
        assert words[0] == words[1] == (404, words[0][1]), "what is not theirs is not there, in the same words"


@pytest.mark.guards("scope-unique")
async def test_a_job_of_another_queue_that_holds_a_unique_key_is_not_named(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory(queues=[Queue("theirs")])

    @app.task(queue="mine", queue_override=True)
    async def work() -> None: ...

    async with app, visit(app) as web:
        mine = bearing(await made_token(app, "operator", queues=("mine",)))
        everybody = bearing(await made_token(app, "operator"))
        own = await work.using(unique="a").enqueue()
        await own.cancel()
        other = await work.using(unique="a", queue="theirs").enqueue()
        for who, is_told in ((mine, False), (everybody, True)):
            refused = await web.post(f"/api/v1/jobs/{own.id}/retry", headers=who)
            assert (refused.status_code, refused.json()["type"]) == (409, "urn:holdfast:unique-conflict")
            assert (other.id in refused.text) == is_told
            turned = await web.post(f"/jobs/{own.id}/retry", headers=who)
            assert (other.id in f"{turned.headers} {turned.text}") == is_told


@pytest.mark.guards("policy-field")
async def test_a_setting_of_a_queue_reaches_no_queue_whose_name_goes_on_after_a_dot(
    make_sqlite_memory: MakeApp,
) -> None:
    app = make_sqlite_memory(queues=[Queue("mail", workers=2), Queue("mail.eu", workers=2)])
    async with app, visit(app) as web:
        await drained(app)  # a worker publishes the queues
        await app.settings.set("queues.mail.eu.workers", 3, reason="theirs")
        mine = bearing(await made_token(app, "admin", queues=("mail",)))
        answers = [
            await web.put("/api/v1/queues/mail/settings/eu.workers", headers=mine, json={"value": 9}),
            await web.delete("/api/v1/queues/mail/settings/eu.workers", headers=mine),
            await web.post("/queues/mail/set", headers=mine, data={"field": "eu.workers", "value": "9"}),
            await web.post("/queues/mail/reset", headers=mine, data={"field": "eu.workers"}),
        ]
        assert [answer.status_code for answer in answers] == [422] * 4
        assert [row.path for row in await app.settings.overrides()] == ["queues.mail.eu.workers.min"]
        assert "theirs" not in (await web.get("/queues/mail", headers=mine)).text
        await app.settings.set("queues.mail.workers", 4)
        assert {row.path: row.value for row in await app.settings.overrides()} == {
            "queues.mail.eu.workers.min": 3,
            "queues.mail.workers.min": 4,
        }
