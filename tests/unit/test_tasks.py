"""Tasks: what may be registered, what may be enqueued, and what comes back for the run."""

import dataclasses
import enum
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from holdfast import Context, Holdfast, Pipeline, Queue, backoff, phase
from holdfast.errors import ArgumentError, ConfigError, DuplicateKind, HoldfastError, InvalidValue, UnknownKind
from holdfast.tasks.options import Options


@pytest.fixture
def app() -> Holdfast:
    return Holdfast("sqlite://")


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Address:
    street: str
    number: int = 1


class Movie(TypedDict):
    name: str
    year: int


class Point(NamedTuple):
    x: int
    y: int


class Shape(msgspec.Struct):
    sides: int


class Uncomparable(msgspec.Struct, eq=False):
    sides: int


class Person(pydantic.BaseModel):
    name: str
    born: date | None = None


class Plain:
    """A class that JSON knows nothing about."""


# ---- registration --------------------------------------------------------------------------------------------------


def test_a_kind_is_stored_in_lower_case_and_shown_as_spelled(app: Holdfast) -> None:
    @app.task(kind="Send.Email")
    def send() -> None: ...

    assert (send.kind, send.name) == ("send.email", "Send.Email")
    assert app.tasks.get("SEND.email") is send


def test_the_kind_is_the_functions_name_by_default_and_the_function_stays_callable(app: Holdfast) -> None:
    @app.task
    def double(number: int) -> int:
        """Twice as much."""
        return 2 * number

    assert double.kind == "double"
    assert double(2) == 4
    assert double.__doc__ == "Twice as much."


async def test_a_task_with_a_context_is_called_with_it_and_enqueued_without(app: Holdfast) -> None:
    @app.task
    async def work(ctx: Context, number: int) -> int:
        return number

    assert work.wants_context
    assert work.is_async
    assert work.call(1).args_json == '{"number":1}'


def test_aliases_find_the_task(app: Holdfast) -> None:
    @app.task(aliases=("Old_Name", "older"))
    def new_name() -> None: ...

    assert app.tasks.get("old_name") is app.tasks.get("OLDER") is new_name
    assert len(app.tasks) == 1
    assert list(app.tasks) == [new_name]
    assert "Old_name" in app.tasks


def test_two_tasks_of_one_kind_are_refused_and_both_are_named(app: Holdfast) -> None:
    @app.task(kind="work")
    def first() -> None: ...

    with pytest.raises(DuplicateKind, match=r"'work' is claimed by .*first and by .*second"):

        @app.task(aliases=["WORK"])
        def second() -> None: ...

    assert "second" not in app.tasks


def test_an_unknown_kind_suggests_known_ones(app: Holdfast) -> None:
    with pytest.raises(UnknownKind, match="nor under any other"):
        app.tasks.get("send_email")

    @app.task
    def send_email() -> None: ...

    with pytest.raises(UnknownKind, match=r"did you mean send_email\?"):
        app.tasks.get("send_mail")
    with pytest.raises(UnknownKind, match="registered are send_email"):
        app.tasks.get("zzz")


def takes_args(*numbers: int) -> None: ...
def takes_kwargs(**numbers: int) -> None: ...
def takes_positional(number: int, /) -> None: ...
def takes_plain(thing: Plain) -> None: ...
def takes_nested_plain(things: dict[str, list[Plain]]) -> None: ...
def takes_callable(callback: Callable[[int], int]) -> None: ...
def takes_tuple_keys(table: dict[tuple[int, int], str]) -> None: ...
def takes_two_structs(one: Shape | Uncomparable) -> None: ...
def takes_late_context(number: int, ctx: Context) -> None: ...
def takes_unknown(number: "Unknown") -> None: ...  # type: ignore[name-defined] # noqa: F821 - on purpose
def takes_dunder(__number: int) -> None: ...  # noqa: PYI063 - on purpose
def returns_plain() -> Plain: ...  # type: ignore[empty-body] # never called


def yields() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    "function, reason",
    [
        (takes_args, "parameter numbers: .*take one list"),
        (takes_kwargs, "parameter numbers: .*take one dict"),
        (takes_positional, "parameter number: .*drop the '/'"),
        (takes_plain, "parameter thing: Plain has no JSON form.*dataclass"),
        (takes_nested_plain, "parameter things: .* has no JSON form because Plain has none"),
        (takes_callable, "parameter callback: .* has no JSON form"),
        (takes_tuple_keys, "parameter table: .* JSON's keys are text"),
        (takes_two_structs, "parameter one: .* has no JSON form"),
        (takes_late_context, "parameter ctx: .* first parameter only"),
        (takes_unknown, "annotation cannot be read: .*Unknown.*importable at run time"),
        (takes_dunder, "two leading underscores"),
        (returns_plain, "result: Plain has no JSON form"),
        (yields, "generator has no result"),
        (lambda: None, "lambda has no name"),
        (print, "expected a function or a Pipeline class"),
        (Plain, "expected a function or a Pipeline class"),
    ],
)
def test_what_cannot_be_a_task_is_refused_with_the_reason(app: Holdfast, function: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        app.task(function)
    assert len(app.tasks) == 0


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"queue": "no spaces"}, "queue: expected 1 to 64 letters"),
        ({"kind": "x" * 65}, "kind: expected 1 to 64 letters"),
        ({"kind": "café"}, "kind: expected 1 to 64 letters"),
        ({"aliases": "one"}, "aliases: expected several names"),
        ({"aliases": ["a b"]}, "alias: expected 1 to 64 letters"),
        ({"priority": 11}, "priority: expected a whole number from 0"),
        ({"priority": True}, "priority: expected a whole number from 0"),
        ({"max_attempts": 0}, "max_attempts: expected a whole number from 1"),
        ({"max_crashes": 1.5}, "max_crashes: expected a whole number from 1"),
        ({"timeout": 0}, "timeout: expected more than 0, got 0; None means no timeout"),
        ({"timeout": float("nan")}, "timeout: expected"),
        ({"retry": "exponential"}, r"retry: expected backoff\(...\)"),
        ({"que": "high"}, "unknown option que; expected among aliases"),
    ],
)
def test_wrong_options_of_a_task_are_refused(app: Holdfast, options: dict[str, Any], reason: str) -> None:
    def work() -> None: ...

    with pytest.raises(ConfigError, match=reason):
        app.task(**options)(work)


def test_options_of_a_task_are_kept_for_the_worker(app: Holdfast) -> None:
    policy = backoff("fixed", "5s")

    @app.task(queue="High", priority=1, max_attempts=7, max_crashes=2, timeout=None, retry=policy)
    def work() -> None: ...

    assert (work.queue, work.retry, work.policy.timeout_ms) == ("high", policy, None)


# ---- arguments -----------------------------------------------------------------------------------------------------

_VALUES = [
    (str, "text"),
    (int, 2**63),
    (float, 1.5),
    (float, 3),
    (bool, True),
    (None, None),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (dict[str, int], {"a": 1}),
    (dict[int, str], {1: "a"}),
    (bytes, b"\x00\xff"),
    (datetime, datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=5)))),
    (datetime, datetime(2026, 1, 2)),  # noqa: DTZ001 - naive ones survive too
    (date, date(2026, 1, 2)),
    (timedelta, timedelta(days=1, seconds=2, microseconds=3)),
    (uuid.UUID, uuid.UUID(int=7)),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.RED),
    (Level, Level.LOW),
    (Literal["a", "b"], "b"),
    (int | None, None),
    (int | str, "a"),
    (Address, Address("Main St", 2)),
    (list[Address], [Address("Main St")]),
    (Movie, {"name": "M", "year": 1931}),
    (Point, Point(1, 2)),
    (Shape, Shape(3)),
    (list[Uncomparable], [Uncomparable(3)]),
    (Person, Person(name="Ada", born=date(1815, 12, 10))),
    (dict[str, Person], {"a": Person(name="Ada")}),
    (Any, {"a": [1, 2.5, None, True, {"b": "c"}]}),
    (Any, {"deep": {"deeper": []}}),
]


@pytest.mark.parametrize("annotation, value", _VALUES)
def test_arguments_survive_enqueue_and_run(app: Holdfast, annotation: Any, value: Any) -> None:
    def work(value: Any) -> None: ...

    work.__annotations__["value"] = annotation
    task = app.task(work)
    decoded = task.decode(task.call(value).args_json)["value"]
    if not isinstance(decoded, list) or not isinstance(decoded[0], Uncomparable):
        assert decoded == value
    assert type(decoded) is type(value) or (annotation, value) == (float, 3)


@pytest.mark.parametrize(
    "annotation, value, fault",
    [
        (int, "1", "argument value: expected `int`, got `str`"),
        (str, 1, "argument value: expected `str`, got `int`"),
        (int, True, "argument value: expected `int`, got `bool`"),
        (list[int], [1, "2"], r"argument value\[1\]: expected `int`, got `str`"),
        (Literal["a"], "b", "argument value: invalid enum value 'b'"),
        (Movie, {"name": "M"}, "argument value: object missing required field `year`"),
        (Movie, {"name": "M", "year": 1, "more": 2}, "does not survive JSON"),
        (Person, {"name": "Ada"}, "does not survive JSON"),
        (datetime, "2026-01-01T00:00:00Z", "does not survive JSON"),
        (Any, {1: 2}, "does not survive JSON"),
        (Any, {"a": (1, 2)}, "does not survive JSON.*come back as"),
        (Any, datetime(2026, 1, 1, tzinfo=UTC), "does not survive JSON"),
        (Any, [Decimal(1)], "does not survive JSON"),
        (Any, {1, 2}, "does not survive JSON"),
        (dict[Any, int], {1: 1, "1": 2}, "does not survive JSON"),
        (Any, Plain(), "have no JSON form"),
        (Any, float("nan"), "expected a finite number"),
    ],
)
def test_wrong_arguments_are_refused_with_their_place(app: Holdfast, annotation: Any, value: Any, fault: str) -> None:
    def work(value: Any) -> None: ...

    work.__annotations__["value"] = annotation
    with pytest.raises(ArgumentError, match=f"^work.*{fault}"):
        app.task(work).call(value)


def test_arguments_that_do_not_fit_the_signature_are_refused(app: Holdfast) -> None:
    @app.task
    def send_email(to: str, subject: str = "hi", *, urgent: bool = False) -> None: ...

    wrong: Any = send_email.call
    with pytest.raises(ArgumentError, match=r"missing a required argument: 'to'; expected send_email\(to: str"):
        wrong()
    with pytest.raises(ArgumentError, match="unexpected keyword argument 'body'"):
        wrong("a", body="x")
    with pytest.raises(ArgumentError, match="too many positional arguments"):
        wrong("a", "b", True)


def test_only_given_arguments_are_stored(app: Holdfast) -> None:
    @app.task
    def send_email(to: str, subject: str = "hi", copies: list[str] = []) -> None: ...  # noqa: B006 - on purpose

    assert send_email.call("a").args_json == '{"to":"a"}'
    assert send_email.decode('{"to":"a"}') == {"to": "a"}
    assert send_email.decode(send_email.call("a", copies=["b"]).args_json) == {"to": "a", "copies": ["b"]}


@pytest.mark.parametrize(
    "stored, fault",
    [
        ("{}", "missing required field `to`"),
        ('{"to": 1}', "argument to: expected `str`, got `int`"),
        ('{"to": "a", "x": 1}', "unknown field `x`"),
        ("[]", "expected `object`, got `array`"),
        ("{", "truncated"),
    ],
)
def test_a_stored_payload_that_does_not_fit_any_more_is_refused_at_the_run(
    app: Holdfast, stored: str, fault: str
) -> None:
    @app.task
    def send_email(to: str) -> None: ...

    with pytest.raises(ArgumentError, match=f"^send_email.*{fault}"):
        send_email.decode(stored)
    with pytest.raises(ArgumentError, match=f"^send_email.*{fault}"):
        send_email.call_json(stored)


def test_arguments_may_come_as_json(app: Holdfast) -> None:
    @app.task
    def remind(when: datetime, who: Person) -> None: ...

    call = remind.call_json('{"when": "2026-01-01T00:00:00Z", "who": {"name": "Ada"}}', priority=0)
    assert call.options.priority == 0
    assert remind.decode(call.args_json) == {"when": datetime(2026, 1, 1, tzinfo=UTC), "who": Person(name="Ada")}


def test_limits_of_the_app_hold_for_its_tasks() -> None:
    app = Holdfast("sqlite://", max_args_bytes=40, max_depth=3)

    @app.task
    def work(value: Any) -> None: ...

    assert work.call([]).args_json == '{"value":[]}'
    with pytest.raises(ArgumentError, match="expected at most 40 bytes of JSON"):
        work.call("x" * 40)
    with pytest.raises(ArgumentError, match="expected at most 3 levels"):
        work.call([[[[]]]])


# ---- using ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"run_at": datetime(2026, 1, 1)}, "run_at: expected a datetime with a time zone, .* without one"),  # noqa: DTZ001 - on purpose
        ({"run_at": float("nan")}, "run_at: expected a datetime"),
        ({"run_at": float("inf")}, "run_at: expected a datetime"),
        ({"run_at": "tomorrow"}, "run_at: expected a datetime"),
        ({"run_at": date(2026, 1, 1)}, "run_at: expected a datetime"),
        ({"run_at": datetime(1969, 12, 31, tzinfo=UTC)}, "between the years 1970 and 9998"),
        ({"run_at": datetime(9999, 1, 1, tzinfo=UTC)}, "between the years 1970 and 9998"),
        ({"run_at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=5)))}, "between the years 1970 and 9998"),
        ({"run_at": datetime(2026, 1, 1, tzinfo=UTC), "delay": 5}, "exclude each other"),
        ({"delay": -1}, "delay: expected between 0 and 100 years"),
        ({"delay": "101 years"}, "delay: expected"),
        ({"delay": timedelta(days=36_501)}, "delay: expected between 0 and 100 years"),
        ({"delay": float("nan")}, "delay: expected"),
        ({"delay": True}, "delay: expected"),
        ({"priority": -1}, "priority: expected"),
        ({"unique": ""}, "unique: expected text of 1 to 512 bytes"),
        ({"unique": "a\x00"}, "unique: expected text"),
        ({"unique": "\ud800"}, "unique: expected text"),
        ({"key": "x" * 513}, "key: expected text of 1 to 512 bytes"),
        ({"key": 7}, "key: expected text"),
        ({"unique_for": "1h"}, "unique_for: expected with unique"),
        ({"unique": "a", "unique_for": 0}, "unique_for: expected more than 0"),
        ({"max_attempts": 0}, "max_attempts: expected"),
        ({"max_crashes": "3"}, "max_crashes: expected"),
        ({"timeout": -1}, "timeout: expected"),
        ({"timeout": 0}, "timeout: expected more than 0"),
        ({"tags": ["a"]}, "tags: expected a mapping"),
        ({"tags": {"a b": "c"}}, "tag name: expected"),
        ({"tags": {"a": 1}}, "tag a: expected text"),
        ({"actor": "x" * 257}, "actor: expected text"),
        ({"queue": "other"}, "the jobs of work belong to 'default', got 'other'; say @app.task"),
        ({"queue": "no spaces"}, "queue: expected"),
        ({"later": 5}, "unknown option later; expected among actor"),
    ],
)
def test_wrong_options_of_an_enqueue_are_refused(app: Holdfast, options: dict[str, Any], reason: str) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(InvalidValue, match=reason):
        work.using(**options)


def test_options_of_an_enqueue_are_converted(app: Holdfast) -> None:
    @app.task(queue_override=True)
    def work() -> None: ...

    given = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    call = work.using(
        run_at=given, priority=0, unique="u", unique_for="1h", key="k", tags={"Tenant": "a"}, actor="me", queue="Other"
    ).call()
    expected = Options(
        run_at=datetime(2026, 1, 1, 10, tzinfo=UTC),
        priority=0,
        unique="u",
        unique_for_ms=3_600_000,
        key="k",
        tags={"tenant": "a"},
        actor="me",
        queue="other",
    )
    assert (call.queue, call.options) == ("other", expected)
    assert work.using(delay="5m").call().options.delay_ms == 300_000


def test_its_own_queue_may_be_named(app: Holdfast) -> None:
    @app.task(queue="high")
    def work() -> None: ...

    assert work.using(queue="HIGH").call().queue == "high"


def test_no_timeout_differs_from_a_timeout_that_is_not_given() -> None:
    from holdfast.client import making

    app = Holdfast("sqlite://", timeout="2h", max_attempts=9, queues=[Queue("slow", priority=8)])

    @app.task(queue="slow")
    def plain() -> None: ...

    @app.task(timeout="5m", max_attempts=2, priority=3)
    def short() -> None: ...

    new_job = partial(making.new_job, settings=app.config)
    assert (new_job(plain.call(), 1).timeout_ms, new_job(plain.using(timeout=None).call(), 1).timeout_ms) == (
        7_200_000,
        None,
    )
    assert new_job(short.call(), 1).timeout_ms == 300_000
    assert new_job(short.using(timeout=None).call(), 1).timeout_ms is None
    assert [new_job(plain.call(), 1).priority, new_job(short.call(), 1).priority] == [8, 3]
    assert new_job(short.using(priority=0).call(), 1).priority == 0
    assert [new_job(plain.call(), 1).max_attempts, new_job(short.call(), 1).max_attempts] == [9, 2]


# ---- pipelines -----------------------------------------------------------------------------------------------------


def test_a_pipeline_has_its_fields_as_payload_and_its_phases_in_order(app: Holdfast) -> None:
    @app.task(queue="bulk")
    class Transcode(Pipeline):
        url: str
        address: Address
        height: int = 720

        @phase
        async def download(self, ctx: Context) -> dict[str, str]:
            return {}

        @phase(weight=3)
        def encode(self, ctx: Context) -> None: ...

        def not_a_phase(self) -> None: ...

    task = Transcode.registered()
    assert (task.kind, task.name, task.queue) == ("transcode", "Transcode", "bulk")
    assert [(step.name, step.weight, step.is_async) for step in task.phases] == [
        ("download", 1, True),
        ("encode", 3, False),
    ]
    call = Transcode(url="x", address=Address("Main St")).using(priority=1).call()
    assert (call.kind, call.options.priority) == ("transcode", 1)
    assert task.decode(call.args_json) == {"url": "x", "address": Address("Main St"), "height": 720}
    assert Transcode(**task.decode(call.args_json)) == Transcode(url="x", address=Address("Main St"))
    wrong: Any = Transcode
    with pytest.raises(ArgumentError, match="argument url: expected `str`, got `int`"):
        wrong(url=1, address=Address("Main St")).call()


def test_an_overridden_phase_keeps_its_place(app: Holdfast) -> None:
    class First(Pipeline):
        @phase
        def one(self, ctx: Context) -> None: ...

        @phase
        def two(self, ctx: Context) -> None: ...

    @app.task
    class Second(First):
        @phase
        def three(self, ctx: Context) -> None: ...

        @phase(weight=2)
        def one(self, ctx: Context) -> None: ...

    assert [(step.name, step.weight) for step in Second.registered().phases] == [("one", 2), ("two", 1), ("three", 1)]
    with pytest.raises(ConfigError, match="First is not registered"):
        First().call()


def _pipelines() -> dict[str, type[Pipeline]]:
    class NoPhases(Pipeline):
        url: str

    class NoContext(Pipeline):
        @phase  # type: ignore[type-var] # wrong on purpose
        def step(self) -> None: ...

    class MoreParameters(Pipeline):
        @phase  # type: ignore[type-var] # wrong on purpose
        def step(self, ctx: Context, more: int) -> None: ...

    class WrongContext(Pipeline):
        @phase  # type: ignore[type-var] # wrong on purpose
        def step(self, ctx: int) -> None: ...

    class Generating(Pipeline):
        @phase
        def step(self, ctx: Context) -> Iterator[int]:
            yield 1

    class Verb(Pipeline):
        using: str  # type: ignore[assignment] # wrong on purpose

        @phase
        def step(self, ctx: Context) -> None: ...

    class Unstorable(Pipeline):
        thing: Plain

        @phase
        def step(self, ctx: Context) -> None: ...

    class Lost(Pipeline):
        @phase
        def step(self, ctx: Context) -> None: ...

    class Unmarked(Lost):
        def step(self, ctx: Context) -> None: ...

    return {
        "needs at least one phase": NoPhases,
        r"phase step: expected `async def step\(self, ctx\)`": NoContext,
        r"got step\(self, ctx: .*more: int\)": MoreParameters,
        "expected ctx: Context, got <class 'int'>": WrongContext,
        "phase step: expected": Generating,
        "using is a verb of every pipeline": Verb,
        "parameter thing: Plain has no JSON form": Unstorable,
        "step replaces a phase and is none": Unmarked,
    }


@pytest.mark.parametrize("reason", _pipelines())
def test_what_cannot_be_a_pipeline_is_refused_with_the_reason(app: Holdfast, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        app.task(_pipelines()[reason])
    assert len(app.tasks) == 0


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), True, "3"])
def test_a_weight_is_a_number_above_zero(weight: Any) -> None:
    with pytest.raises(ConfigError, match="phase weight: expected a number above 0"):
        phase(weight=weight)


async def test_an_app_that_is_not_open_says_so(app: Holdfast) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(HoldfastError, match="the app is not open; use it inside `async with app:`"):
        await work.enqueue()
