"""Dead letters of an app: what fails is found in groups, and replayed, edited or exported without a secret."""

from typing import Any

import pytest
from pydantic import SecretStr

from holdfast import Holdfast, JobState
from holdfast.errors import ArgumentError, DeadLetterNotFound, InvalidValue, WrongState
from holdfast.resources.bulk import BulkState
from tests.support.wait import until
from tests.support.workers import MakeApp, drained, working

SECRET = "correct-horse-battery"


def register(app: Holdfast) -> Any:
    @app.task(max_attempts=1)
    async def send(to: str, number: int = 0) -> str:
        if to == "nobody":
            message = f"nobody takes number {number}"
            raise LookupError(message)
        return to

    return send


async def test_a_group_is_replayed_in_the_background(make_app: MakeApp) -> None:
    app = make_app()
    send = register(app)
    async with app:
        ids = [(await send.enqueue("nobody", number)).id for number in range(12)]
        await drained(app)
        (group,) = (await app.dead_letters.list(kind="Send")).groups
        assert (group.kind, group.seen, group.left.jobs, group.error_class) == ("send", 12, 12, "LookupError")
        assert group.fingerprint == f"LookupError@{__file__}:send"
        assert str(await app.bulk.preview("retry", await app.dead_letters.filter(group.id))) == "12"
        run = await app.dead_letters.replay(group.id, rate="1000/s", actor="alice")
        async with working(app):

            async def is_over() -> bool:
                return (await app.bulk.get(run.id)).state is BulkState.ENDED

            await until(is_over, "the end of the run")
            ended = await app.bulk.get(run.id)
            assert (ended.done, ended.refused, ended.expected.jobs, ended.actor) == (12, 0, 12, "alice")

            async def failed_again() -> bool:
                return (await app.dead_letters.get(group.id)).seen == 24

            await until(failed_again, "what fails again")
        assert {job.run for job in (await app.jobs.get_many([job for job in ids if job])).values()} == {2}


async def test_a_job_is_replayed_with_other_arguments(make_app: MakeApp) -> None:
    app = make_app()
    send = register(app)
    async with app:
        old = await send.using(tags={"customer": "17"}, actor="bob").enqueue("nobody", 7)
        with pytest.raises(WrongState, match="this one is queued; cancel it first"):
            await app.jobs.clone(old.id, {"to": "b"})
        await drained(app)
        for wrong in ({"to": 5}, {"too": "b"}):
            with pytest.raises(ArgumentError):
                await app.jobs.clone(old.id, wrong)
        new = await app.jobs.clone(old.id, {"to": "b"}, actor="alice")
        assert (new.args, new.tags, new.actor) == ({"to": "b", "number": 7}, {"customer": "17"}, "alice")
        await drained(app)
        done = await app.jobs.get(new.id)
        assert (done.state, done.result, done.origin) == (JobState.COMPLETED, "b", old.id)
        assert (await old.get()).state is JobState.FAILED


async def test_secrets_are_in_no_export(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(max_attempts=1)
    async def call(token: SecretStr, place: str) -> None:
        message = f"{place} refuses {token.get_secret_value()}"
        raise PermissionError(message)

    async with app:
        job = await call.enqueue(SecretStr(SECRET), "here")
        await drained(app)
        again = await app.jobs.clone(job.id, {"token": f"{SECRET}-2"})
        await drained(app)
        assert (await app.jobs.get(again.id)).state is JobState.FAILED
        lines = [line async for line in app.dead_letters.export()]
    assert [line.id for line in lines] == [again.id, job.id]
    assert {line.args["token"] for line in lines} == {"**********"}
    assert {line.args["place"] for line in lines} == {"here"}
    assert {line.error for line in lines} == {"here refuses **********"}
    assert SECRET not in str(lines)


async def unchecked(_: str, arguments: str) -> str:
    return arguments


async def test_what_was_secret_inside_an_argument_stays_so(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory()

    @app.task(max_attempts=1)
    async def call(logins: list[dict[str, SecretStr]], by: dict[str, dict[str, SecretStr]]) -> None: ...

    async with app:
        job = await call.enqueue([{"a": SecretStr(SECRET)}], {"ann": {"key": SecretStr(SECRET)}})
        await job.cancel()
        changes = {"logins": [{"a": "new"}], "by": {"ann": {"key": "**********", "more": "x"}}}
        args = (await app.client.jobs.clone_checked(job.id, changes, unchecked, None)).args
    assert args["logins"] == [{"a": {"$secret": "new"}}], "also where nobody knows the task any more"
    assert args["by"] == {"ann": {"key": {"$secret": SECRET}, "more": "x"}}


async def test_wrong_words_are_refused(make_sqlite_memory: MakeApp) -> None:
    app = make_sqlite_memory()
    async with app:
        with pytest.raises(DeadLetterNotFound, match="there is no such group"):
            await app.dead_letters.get("000000000000")
        with pytest.raises(InvalidValue, match="expected twelve digits like"):
            await app.dead_letters.replay("x")
        with pytest.raises(InvalidValue, match="verb: expected one of retry"):
            await app.bulk.preview("burn", await app.dead_letters.filter())
        with pytest.raises(InvalidValue, match="states: cancel takes"):
            await app.bulk.start("cancel", await app.dead_letters.filter())
        with pytest.raises(InvalidValue, match="priority: expected one for reprioritise"):
            await app.bulk.start("retry", await app.dead_letters.filter(), priority=1)


def test_without_an_event_loop(make_sqlite_file: MakeApp) -> None:
    app = make_sqlite_file()
    register(app)
    with app.blocking() as queue:
        assert queue.dead_letters.list().groups == []
        assert list(queue.dead_letters.export()) == []
        assert queue.dead_letters.purge().expected.jobs == 0
        job = queue.enqueue(app.tasks.get("send").call_json('{"to": "nobody"}'))
        job.cancel()
        with pytest.raises(ArgumentError):
            queue.jobs.clone(job.id, {"to": 5})
        assert queue.jobs.clone(job.id, {"to": "b"}).args == {"to": "b"}
