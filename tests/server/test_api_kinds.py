"""What is published of a kind: shown, and enough to check its arguments where the task itself is not known."""

import enum
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import Meta
from pydantic import BaseModel, Field, SecretStr

from holdfast import Context, Holdfast
from holdfast.errors import ArgumentError
from holdfast.server import schemas
from holdfast.tasks.registry import Registry
from tests.server.asking import asking
from tests.server.test_api_jobs import JOBS, problem
from tests.support.sizes import size
from tests.support.workers import drained


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    street: str
    number: int | None = None


class Circle(msgspec.Struct, tag="circle"):
    radius: float


class Square(msgspec.Struct, tag="square"):
    side: float


class Inner(BaseModel):
    token: SecretStr
    parent: "Inner | None" = None


class Account(BaseModel):
    name: str = Field(min_length=2, pattern="^[a-z]+$")
    inner: Inner
    scores: list[int] = Field(default_factory=list, max_length=3)


Few = Annotated[list[int], Meta(max_length=2)]


def plain(name: str, times: int = 1, ratio: float = 0.5, on: bool = False) -> None: ...
def rich(place: Place, colours: list[Colour], by: dict[str, int], pair: tuple[int, str]) -> None: ...
def times(at: Annotated[datetime, Meta(tz=True)], number: UUID, price: Decimal, mode: Literal["a", "b", 3]) -> None: ...
def shapes(shape: Circle | Square | None, low: Annotated[int, Meta(ge=1, lt=10)]) -> None: ...
def words(text: Annotated[str, Meta(min_length=2, max_length=4)], many: Few) -> None: ...
def secret(user: str, password: SecretStr, more: dict[str, SecretStr] | None = None) -> None: ...
def model(account: Account, others: list[Account] | None = None) -> None: ...
def anything(value: Any, rest: dict[str, Any] | None = None) -> None: ...


FUNCTIONS = (plain, rich, times, shapes, words, secret, model, anything)
TEXTS = st.sampled_from(
    ["a", "abc", "red", "circle", "2026-11-16T09:30:00Z", "3.5", "0f8fad5b-d9cb-469f-a165-70867728950e", ""]
)
NAMES = st.sampled_from(
    [
        *("name", "times", "ratio", "on", "place", "street", "number", "colours", "by", "pair", "at", "id", "price"),
        *("mode", "shape", "type", "radius", "side", "low", "text", "many", "user", "password", "more", "$secret"),
        *("account", "inner", "token", "parent", "scores", "others", "value", "rest", "else"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 12) | st.sampled_from([0.5, 3.0]) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
GOOD: dict[str, list[dict[str, Any]]] = {
    "plain": [{"name": "x"}, {"name": "x", "times": 2, "ratio": 1, "on": True}],
    "rich": [{"place": {"street": "s"}, "colours": ["red"], "by": {"x": 1}, "pair": [1, "a"]}],
    "times": [
        {"at": "2026-11-16T09:30:00Z", "number": "0f8fad5b-d9cb-469f-a165-70867728950e", "price": "3.5", "mode": 3},
    ],
    "shapes": [{"shape": {"type": "square", "side": 2}, "low": 9}, {"shape": None, "low": 1}],
    "words": [{"text": "abcd", "many": [1, 2]}],
    "secret": [{"user": "u", "password": "p"}, {"user": "u", "password": {"$secret": "p"}, "more": {"x": "y"}}],
    "model": [{"account": {"name": "ada", "inner": {"token": "t", "parent": {"token": "u"}}}, "others": None}],
    "anything": [{"value": [{"x": 1}], "rest": {"y": None}}, {"value": None}],
}


@pytest.fixture(scope="module")
def tasks() -> dict[str, Any]:
    app = Holdfast("sqlite://")
    return {function.__name__: app.task(function) for function in FUNCTIONS}


def accepts(check: Any) -> bool:
    try:
        check()
    except ArgumentError:
        return False
    return True


@pytest.mark.parametrize("name", [function.__name__ for function in FUNCTIONS])
def test_what_a_task_takes_its_schema_takes(tasks: dict[str, Any], name: str) -> None:
    task = tasks[name]
    for arguments in GOOD[name]:
        task.arguments.check(msgspec.json.encode(arguments).decode())
        schemas.checked(task.arguments.schema(), arguments, name)
        for missing in arguments:
            left = {key: value for key, value in arguments.items() if key != missing}
            taken = accepts(lambda left=left: task.arguments.check(msgspec.json.encode(left).decode()))
            assert accepts(lambda left=left: schemas.checked(task.arguments.schema(), left, name)) is taken
        more = {**arguments, "else": 1}
        assert not accepts(lambda more=more: schemas.checked(task.arguments.schema(), more, name))


def test_mistakes_are_told_where_they_are(tasks: dict[str, Any]) -> None:
    for name, changes, said in (
        ("model", {"account": {"name": "A", "inner": {"token": 3}}}, "argument account.name: expected at least 2"),
        ("model", {"others": [{"name": "ada"}]}, "argument others[0]: inner is missing"),
        ("rich", {"pair": [1, 2]}, "argument pair[1]: expected string, got 2"),
        ("rich", {"colours": ["red", "green"]}, "argument colours[1]: expected one of 'blue', 'red', got 'green'"),
        ("shapes", {"low": 10}, "argument low: expected less than 10, got 10"),
        ("shapes", {"shape": 4}, "argument shape: expected object or null, got 4"),
        ("words", {"text": "abcde", "many": [1, 2, 3]}, "argument many: expected at most 2 elements, got 3"),
        ("secret", {"password": 5}, "argument password: expected text, got 5"),
    ):
        with pytest.raises(ArgumentError) as refused:
            schemas.checked(tasks[name].arguments.schema(), {**GOOD[name][0], **changes}, name)
        assert said in str(refused.value)


@pytest.mark.parametrize("name", [function.__name__ for function in FUNCTIONS])
@settings(max_examples=size(25, 400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_checker_refuses_what_the_standard_refuses(tasks: dict[str, Any], name: str, data: st.DataObject) -> None:
    task = tasks[name]
    schema = msgspec.json.decode(msgspec.json.encode(task.arguments.schema()))
    arguments = dict(data.draw(st.sampled_from(GOOD[name])))
    for changed in data.draw(st.sets(st.sampled_from(sorted(arguments)), max_size=2)):
        arguments[changed] = data.draw(VALUES)
    taken = accepts(lambda: schemas.checked(schema, arguments, name))
    encoded = msgspec.json.encode(arguments).decode()
    if accepts(lambda: task.arguments.check(encoded)):
        assert taken, "the task takes it"
    elif not Draft202012Validator(schema).is_valid(arguments) and "$secret" not in encoded:
        assert not taken, "the standard refuses it"
    if taken:
        stored = msgspec.json.encode(schemas.checked(schema, arguments, name)).decode()
        assert accepts(lambda: task.arguments.check(stored)), "a worker can read what was taken"


async def test_a_server_without_the_tasks_checks_by_what_is_published(memory_app: Holdfast) -> None:
    @memory_app.task(queue="high", aliases=["hallo"], priority=3, max_attempts=4, timeout="9s", phases=("a", "b"))
    async def greet(ctx: Context, name: str, times: int = 1) -> str:
        return name * times

    @memory_app.task(max_attempts=1)
    async def login(user: str, password: SecretStr, account: Account | None = None) -> str:
        return password.get_secret_value()[:1] + (account.inner.token.get_secret_value()[:1] if account else "")

    async with asking(memory_app, knows_tasks=False) as web:
        assert problem(await web.post(JOBS, json={"kind": "greet", "args": {"name": "x"}})) == (422, "unknown-kind")
        await drained(memory_app)
        answer = await web.post(JOBS, json={"kind": "hallo", "args": {"name": "x"}})
        job = answer.json()
        assert (answer.status_code, job["kind"], job["queue"], job["priority"]) == (201, "greet", "high", 3)
        assert (job["max_attempts"], job["timeout_ms"]) == (4, 9_000)
        assert [phase["name"] for phase in job["phases"]] == ["a", "b"]
        for wrong, said in (
            ({"name": 5}, "argument name: expected string, got 5"),
            ({}, "name is missing"),
            ({"name": "x", "times": "2"}, "argument times: expected integer, got '2'"),
            ({"name": "x", "times": 2.5}, "argument times: expected integer, got 2.5"),
            ({"name": "x", "age": 2}, "argument age: there is no such argument; expected name, times"),
        ):
            answer = await web.post(JOBS, json={"kind": "greet", "args": wrong})
            assert problem(answer) == (422, "arguments")
            assert said in answer.json()["detail"]
        assert problem(await web.post(JOBS, json={"kind": "greet", "args": {"name": "x"}, "queue": "low"}))[0] == 422
        whole = await web.post(JOBS, json={"kind": "greet", "args": {"name": "x", "times": 2.0}})
        assert (await memory_app.jobs.get(whole.json()["id"])).args == {"name": "x", "times": 2}
        account = {"name": "ada", "inner": {"token": "key1"}}
        asked = {"kind": "login", "args": {"user": "u", "password": "pass1", "account": account}}
        answer = await web.post(JOBS, json=asked)
        assert answer.status_code == 201
        assert "pass1" not in answer.text
        assert "key1" not in answer.text
        stored = (await memory_app.jobs.get(answer.json()["id"])).args
        assert stored["password"] == {"$secret": "pass1"}
        assert stored["account"]["inner"]["token"] == {"$secret": "key1"}
        await drained(memory_app)
        assert (await web.get(f"{JOBS}/{answer.json()['id']}")).json()["result"] == "pk"
        bad = await web.post(f"{JOBS}/{answer.json()['id']}/clone", json={"args": {"user": 3}})
        assert problem(bad) == (422, "arguments")
        again = await web.post(f"{JOBS}/{answer.json()['id']}/clone", json={"args": {"user": "v"}})
        assert (again.status_code, again.json()["args"]["password"]) == (201, "**********")


async def test_a_page_without_the_tasks_replays_by_what_is_published(
    memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    @memory_app.task(max_attempts=1)
    async def login(account: Account) -> str:
        return account.name

    job = await login.enqueue(Account(name="ada", inner=Inner(token=SecretStr("key1"))))
    await drained(memory_app)
    monkeypatch.setattr(memory_app.client.jobs, "_tasks", Registry())  # as where only the store is known
    async with asking(memory_app, knows_tasks=False) as web:
        page = f"/jobs/{job.id}/clone"
        wrong = await web.post(page, data={"args": '{"account": {"name": 3, "inner": {"token": "key2"}}}'})
        assert wrong.status_code == 422
        args = '{"account": {"name": "bob", "inner": {"token": "key2"}}}'
        new = (await web.post(page, data={"args": args})).headers["location"].rpartition("/")[2]
        assert (await memory_app.jobs.get(new)).args["account"]["inner"]["token"] == {"$secret": "key2"}
        assert "key2" not in (await web.get(f"{JOBS}/{new}")).text
        account = {"name": "eve", "inner": {"token": "**********"}}
        answer = await web.post(f"{JOBS}/{job.id}/clone", json={"args": {"account": account}})
        stored = (await memory_app.jobs.get(answer.json()["id"])).args["account"]
        assert (stored["name"], stored["inner"]["token"]) == ("eve", {"$secret": "key1"}), "its cover was left"


async def test_many_unknown_kinds_are_looked_for_once(memory_app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, store = [], memory_app.store
    list_kinds = store.list_kinds

    async def counted() -> Any:
        asked.append(1)
        return await list_kinds()

    monkeypatch.setattr(store, "list_kinds", counted)
    async with asking(memory_app, knows_tasks=False) as web:
        answer = await web.post(f"{JOBS}/batch", json={"jobs": [{"kind": f"nobody{n}"} for n in range(200)]})
    assert (answer.json()["refused"], len(asked)) == (200, 2)


async def test_kinds_are_shown_with_their_schema(memory_app: Holdfast) -> None:
    @memory_app.task(queue="high", aliases=["hallo"], note="greets people")
    async def greet(name: str) -> str:
        return name

    for knows_tasks in (True, False):
        await drained(memory_app)
        async with asking(memory_app, "viewer", knows_tasks=knows_tasks) as web:
            (kind,) = (await web.get("/api/v1/kinds")).json()["kinds"]
            assert (kind["name"], kind["queue"], kind["note"], kind["aliases"]) == (
                "greet",
                "high",
                "greets people",
                ["hallo"],
            )
            Draft202012Validator.check_schema(kind["args_schema"])
            assert Draft202012Validator(kind["args_schema"]).is_valid({"name": "x"})
            assert (await web.get("/api/v1/kinds/Hallo")).json() == kind
            assert problem(await web.get("/api/v1/kinds/nobody")) == (404, "not-found")
            assert problem(await web.get("/api/v1/kinds/no%20kind")) == (422, "invalid-value")
