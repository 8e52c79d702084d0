"""Checks of what strangers send, by hypothesis: each ends with a value or a refusal, and costs little."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from holdfast import Holdfast, filtering, public_id
from holdfast.client import cursors, dead_letters
from holdfast.cron import read_times
from holdfast.duration import milliseconds
from holdfast.errors import HoldfastError
from holdfast.hours import read_hours
from holdfast.policies.rate import read_rate
from holdfast.server import schemas, whence
from holdfast.server.bodies import read_json
from holdfast.server.pages import said
from holdfast.server.pages.queues import read_value
from holdfast.server.problems import Problem
from holdfast.server.settings import ServerSettings
from holdfast.webhooks.address import check_url, read_allowed
from holdfast.webhooks.schedule import read_retry_after
from holdfast.webhooks.signature import read_secret
from tests.server.test_hostile_arguments import tree
from tests.support.sizes import size

_FILTER = 'kind: state: tag.a: since: 1h " - , * ( a é'
_URL = "http:// https:// a. example.org : 80 / % @ [ ::1 ] ß 0x7f # ?"
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
_MOST_CPU_S = 0.5  # for one input; all but a few take less than a thousandth of it
_LONG = 5_000  # fragments; what a route bounds is cut to that below
_SETTINGS: dict[str, Any] = {"max_examples": size(60, 3_000), "deadline": None, "database": None}
_PROXIED = ServerSettings(proxies=("10.0.0.0/8",))


def fires(cron: str) -> None:
    """Read a cron line, as long as a request may bring one, and work out when it fires."""
    times = read_times(cron=cron[:300])
    times.between(NOW, NOW + timedelta(days=400), 20)
    times.describe()


def forwarded(text: str) -> str:
    """Find where a request comes from that a proxy says something of."""
    header = (b"x-forwarded-for", text.encode("latin-1", "replace")[:60_000])
    scope = {"type": "http", "headers": [header], "client": ("10.0.0.1", 1)}
    return whence.address_of(HTTPConnection(scope), _PROXIED)


CHECKS: dict[str, tuple[Callable[[str], Any], str]] = {
    "filter": (
        lambda text: filtering.parse(text[: filtering.LONGEST], NOW),
        _FILTER,
    ),
    "cursor": (cursors.read_cursor, "2026-11-16T09:30:00Z ~ htcx-2s16-z48b-09 9 - +00:00"),
    "cursor of groups": (dead_letters.read_cursor, "2026-11-16T09:30:00Z ~ 3f9a0c71be42 9 - +00:00"),
    "id": (public_id.decode, "htcx-2s16-z48b-09 - 0 z * ½"),
    "start of an id": (public_id.begins, "htcx-2s16-z48b-09 - 0 z *"),
    "end of an id": (public_id.ends, "htcx-2s16-z48b-09 - 0 z *"),
    "cron": (fires, "* / , - 0 29 30 31 2 mon jan L W # ? @daily"),
    "interval": (lambda text: read_times(every=text[:50]), "1 0 . s m h d ms µ - e"),
    "hours": (lambda text: read_hours(window=(text[:5], "06:00"), days=text[:100]), "0 2 : mon - sun , . 24"),
    "duration": (milliseconds, "1 0 . s m h d ms µ - e 99999999999"),
    "rate": (lambda text: read_rate(text, "rate"), "1 0 / s m 10 . - 99999999999"),
    "retry-after": (lambda text: read_retry_after(text, NOW), "1 9 - Mon, 16 Nov 2026 09:30:00 GMT ( +0000"),
    "url": (
        lambda text: check_url(text, read_allowed(())),
        _URL,
    ),
    "secret": (read_secret, "whsec_ A = / + - é"),
    "cookie": (said.read, '%7B { " text : undo [ ] , 1 } %5B'),
    "setting": (read_value, '{ " a : [ ] , 1 } e 9'),
    "body": (lambda text: read_json(text.encode()), '{ " a : [ ] , 1 } e 9 true -'),
    "forwarded": (forwarded, "10.0.0.1 , : [ ] ::1 1.2.3.4 80"),
}


def texts(fragments: str) -> st.SearchStrategy[str]:
    """Texts of fragments: mixed, and some of them thousands of times."""
    some = st.sampled_from([*fragments.split(), " "])
    many = st.tuples(some, st.integers(1, _LONG)).map(lambda pair: pair[0] * pair[1])
    return st.lists(some | st.text(max_size=3) | many, max_size=12).map("".join)


@contextlib.contextmanager
def cheap(what: object) -> Iterator[None]:
    """Demand that a block takes little processor time, and that it refuses in our own words."""
    began = time.process_time()
    with contextlib.suppress(HoldfastError, Problem):
        yield
    took_s = time.process_time() - began
    assert took_s < _MOST_CPU_S, f"{took_s:.2f} s for {str(what)[:200]!r}"


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_of_text_costs_little(name: str) -> None:
    check, fragments = CHECKS[name]

    @hypothesis.settings(**_SETTINGS)
    @hypothesis.given(texts(fragments))
    def costs_little(text: str) -> None:
        with cheap(text):
            check(text)

    costs_little()


NAMES = st.sampled_from(["branch", "node", "child", "other", "tagged", "children", "kind", "text", "word", "$secret"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("tagged")
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=40
)


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments that look like those of a task with choices, deep or wide at some place."""
    value = draw(VALUES)
    for name in draw(st.lists(NAMES, max_size=50)):
        value = [value] if draw(st.booleans()) else {name: value}
    many = draw(st.sampled_from([1, 1, 1, 50]))
    return {"branch": {draw(NAMES): [value] * many if many > 1 else value}}


def test_a_check_against_a_schema_costs_little() -> None:
    schema = Holdfast("sqlite://").task(tree).arguments.schema()

    @hypothesis.settings(**_SETTINGS, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(arguments())
    def costs_little(given: dict[str, Any]) -> None:
        with cheap(given):
            schemas.checked(schema, given, "tree")

    costs_little()
