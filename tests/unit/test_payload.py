"""Payloads: what is accepted comes back equal, and everything else is refused with a reason."""

import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Holdfast, payload
from holdfast.errors import ArgumentError

app = Holdfast("sqlite://")


@app.task
def work(value: Any) -> None: ...


@app.task
def typed(value: dict[str, list[int | float | str | None]]) -> None: ...


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(alphabet=st.characters(categories=["Cs", "Cc", "Lu"]))
)
_KEYS = st.text() | st.integers() | st.booleans() | st.none() | st.text(alphabet="\x00\ud800a")
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(_KEYS, inner),
    max_leaves=20,
)


def _fits(value: Any) -> bool:
    """Say whether a value is JSON that both databases keep, written as plainly as possible."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return "\x00" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, list):
        return all(_fits(item) for item in value)
    return (
        isinstance(value, dict)
        and all(isinstance(key, str) and _fits(key) for key in value)
        and all(_fits(item) for item in value.values())
    )


@settings(max_examples=400, deadline=None)
@given(_VALUES)
def test_accepted_means_it_comes_back_equal(value: Any) -> None:
    try:
        call = work.call(value)
    except ArgumentError:
        assert not _fits(value)
    else:
        assert _fits(value)
        assert work.decode(call.args_json) == {"value": value}


@settings(max_examples=200, deadline=None)
@given(_VALUES)
def test_a_typed_parameter_accepts_only_what_comes_back_equal(value: Any) -> None:
    try:
        call = typed.call(value)
    except ArgumentError:
        return
    assert typed.decode(call.args_json) == {"value": value}


@settings(max_examples=200, deadline=None)
@given(st.text() | st.binary().map(lambda noise: noise.decode("latin-1")))
def test_any_text_as_stored_payload_is_read_or_refused(stored: str) -> None:
    try:
        read = work.decode(stored)
    except ArgumentError:
        return
    assert read.keys() == {"value"}


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value, fault",
    [
        (float("nan"), "expected a finite number, got nan"),
        ([float("inf")], r"\[0\]: expected a finite number, got inf"),
        pytest.param(10**5_000, "64 bits", id="5,000 digits"),
        (2**64, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (_nested(10_000), "levels of nesting|cannot be kept"),
        (_nested(64), "expected at most 64 levels"),
        ("a\x00b", "text without NUL"),
        ({"a\x00": 1}, "text without NUL"),
        ("\ud800", "surrogate|cannot be kept"),
        ({"\udfff": 1}, "surrogate|cannot be kept"),
        pytest.param("x" * 256_001, "expected at most 256000 bytes", id="large"),
        (object(), "have no JSON form"),
    ],
)
def test_what_a_database_would_change_is_refused(value: Any, fault: str) -> None:
    with pytest.raises(ArgumentError, match=fault):
        work.call(value)


def test_a_list_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ArgumentError):
        work.call(endless)


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, -(2**63), 2**53 + 1, 0.1, -0.0, 1e308, "\U0001f980", "\x7f\u2028"])
def test_what_is_at_the_edge_survives(value: Any) -> None:
    assert work.decode(work.call(value).args_json) == {"value": value}


def test_the_deepest_value_that_is_allowed_survives() -> None:
    deepest = _nested(61)
    assert work.decode(work.call(deepest).args_json) == {"value": deepest}


def test_results_have_the_same_limits() -> None:
    assert payload.encode({"a": [1, None]}, "result") == '{"a":[1,null]}'
    with pytest.raises(ArgumentError, match=r"^result\.a: expected a finite number"):
        payload.encode({"a": float("nan")}, "result")


@pytest.mark.parametrize("inner", [[0] * 10_000, {str(number): 0 for number in range(10_000)}])
def test_a_check_does_not_copy_a_long_name_for_each_value_below_it(inner: Any) -> None:
    value = {"k" * 20_000: inner}
    tracemalloc.start()
    try:
        payload.check(value, "body")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000  # the names alone would be 200 MB


def test_a_refusal_names_where_the_value_is() -> None:
    with pytest.raises(ArgumentError, match=r"body\.a\[1\]\.b: expected a finite number, got nan"):
        payload.check({"a": [0, {"b": math.nan}]}, "body")
    with pytest.raises(ArgumentError) as refused:
        payload.check({"k" * 20_000: {"b": math.nan}}, "body")
    assert len(str(refused.value)) < 200
