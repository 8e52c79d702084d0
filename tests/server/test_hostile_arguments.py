"""Arguments that someone made to cost the server time: a check takes no more than the size of what it checks."""

import time
from typing import Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, Field, SecretStr

from holdfast import Holdfast
from holdfast.errors import ArgumentError
from holdfast.server import schemas
from tests.server.asking import asking
from tests.server.test_api_jobs import JOBS, problem
from tests.support.workers import drained

_LEVELS = 60
_MOST_CPU_S = 1.0  # each took longer than the test may, or ten times that


class Node(BaseModel):
    child: "Node | None" = None


class Left(BaseModel):
    child: "Left | Right | None" = None
    word: str | SecretStr = ""


class Right(BaseModel):
    child: "Left | Right | None" = None
    word: str | SecretStr = ""


class Tagged(BaseModel):
    kind: Literal["tagged"] = "tagged"
    children: "list[Tagged | Left] | dict[str, Tagged]" = []


class Branch(BaseModel):
    """One argument of each kind that may cost time."""

    node: Node | None = None
    other: Left | Right | None = None
    tagged: Tagged | None = None
    text: str = Field("a", pattern=r"^(a+)+$")


def tree(branch: Branch) -> None: ...


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    found: dict[str, Any] = Holdfast("sqlite://").task(tree).arguments.schema()
    return found


def nested(name: str, inmost: Any) -> Any:
    for _ in range(_LEVELS):
        inmost = {name: inmost}
    return inmost


@pytest.mark.parametrize(
    "branch",
    [
        pytest.param({"node": nested("child", "bad")}, id="a mistake below optional values"),
        pytest.param({"other": nested("child", "bad")}, id="a mistake below a choice of two"),
        pytest.param({"tagged": nested("children", "bad")}, id="a mistake below lists and objects"),
        pytest.param({"text": "a" * 50_000 + "!"}, id="a pattern with repeats in repeats"),
        pytest.param({"node": [nested("child", None)] * 500}, id="many values"),
        pytest.param({"other": nested("child", [1] * 30_000)}, id="a mistake on each level above many values"),
    ],
)
@pytest.mark.guards("check-once", "check-pattern", "check-shown")
def test_a_check_that_fails_is_soon_done(schema: dict[str, Any], branch: dict[str, Any]) -> None:
    arguments = msgspec.json.decode(msgspec.json.encode({"branch": branch}))
    began = time.process_time()
    with pytest.raises(ArgumentError, match="expected"):
        schemas.checked(schema, arguments, "tree")
    assert time.process_time() - began < _MOST_CPU_S


def test_a_value_that_fits_both_of_two_types_is_soon_stored(schema: dict[str, Any]) -> None:
    arguments = {"branch": {"other": nested("child", {"word": "hush"})}}
    began = time.process_time()
    stored = schemas.checked(schema, arguments, "tree")
    assert time.process_time() - began < _MOST_CPU_S
    assert stored == {"branch": {"other": nested("child", {"word": {"$secret": "hush"}})}}


@pytest.mark.guards("check-steps")
def test_a_check_ends_when_a_value_fits_too_many_types() -> None:
    choices = [{"type": "object", "properties": {"a": {"type": "integer"}}, "title": str(n)} for n in range(2_000)]
    schema = {"type": "object", "properties": {"value": {"anyOf": choices}}}
    with pytest.raises(ArgumentError, match="match too many of their types"):
        schemas.checked(schema, {"value": {"a": "bad"}}, "many")


async def test_a_server_answers_beside_a_long_check(memory_app: Holdfast) -> None:
    memory_app.task(tree)
    async with asking(memory_app, knows_tasks=False) as web:
        await drained(memory_app)  # which publishes the kind
        answer = await web.post(JOBS, json={"kind": "tree", "args": {"branch": {"node": nested("child", "bad")}}})
        assert problem(answer) == (422, "arguments")
        assert "expected object or null" in answer.json()["detail"]


@pytest.mark.guards("check-in-thread")
async def test_a_long_check_takes_no_time_of_the_event_loop(memory_app: Holdfast) -> None:
    """Every request waits for the event loop, also one for `/healthz`; no store has a part in it."""
    memory_app.task(tree)
    branch = {"tagged": {"children": [{"children": [7]}] * 8_000}}
    async with asking(memory_app, knows_tasks=False) as web:
        await drained(memory_app)  # which publishes the kind
        await web.post(JOBS, json={"kind": "tree", "args": {"branch": {}}})
        began, began_all = time.thread_time(), time.process_time()
        answer = await web.post(JOBS, json={"kind": "tree", "args": {"branch": branch}})
        took_s, took_all_s = time.thread_time() - began, time.process_time() - began_all
        assert answer.status_code == 201
        assert took_s < took_all_s / 2
        assert (await web.get("/healthz")).text == "ok"
