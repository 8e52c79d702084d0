"""Recording a failure cannot fail: whatever was raised, what comes out is clean and bounded (row G1)."""

import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import public_id
from holdfast.errors import InvalidValue
from holdfast.failure import CLASS_LENGTH, MESSAGE_BYTES, TRACEBACK_BYTES, Failure, clean, from_exception, from_text

steady = settings(deadline=None, derandomize=True)  # a busy machine is no failure


def raised(error: BaseException) -> BaseException:
    """The error as a handler would raise it, with its traceback."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def assert_fit_to_be_stored(failure: Failure) -> None:
    texts = {
        failure.error_class: CLASS_LENGTH,
        failure.message: MESSAGE_BYTES,
        failure.traceback or "": TRACEBACK_BYTES,
        failure.fingerprint: 2 * CLASS_LENGTH,
    }
    for text, most in texts.items():
        assert len(text.encode()) <= most  # and no lone surrogate
        assert not any(letter < " " and letter not in "\n\t" for letter in text)
        assert not any("\x7f" <= letter <= "\x9f" for letter in text)
        assert json.loads(json.dumps(text)) == text
    assert len((failure.message + (failure.traceback or "")).encode()) <= 8_000
    assert failure.error_class
    assert failure.fingerprint


class BrokenStr(Exception):
    def __str__(self) -> str:
        message = "no words"
        raise RuntimeError(message)


class BrokenBoth(Exception):
    def __str__(self) -> str:
        raise ValueError

    def __repr__(self) -> str:
        raise ValueError


class StrOfAnotherType(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value] # noqa: PLE0307 - that is the point


class BrokenReduce(Exception):
    def __reduce__(self) -> str:
        raise TypeError


class TextWithTricks(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError

    def __len__(self) -> int:
        raise ValueError


class ReturnsTricks(Exception):
    def __str__(self) -> str:
        return TextWithTricks("tricky")


def deep_group() -> BaseException:
    error: Exception = ValueError("innermost")
    for _ in range(1_000):
        error = ExceptionGroup("group", [error])
    return error


def cyclic_cause() -> BaseException:
    one, two = ValueError("one"), KeyError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def own_cause() -> BaseException:
    error = ValueError("self")
    error.__context__ = error.__cause__ = error
    return error


def long_chain() -> BaseException:
    error = ValueError("0")
    for number in range(1, 1_000):
        following = ValueError(str(number))
        following.__cause__ = error
        error = following
    return error


def deep_recursion() -> BaseException:
    def dive(depth: int) -> int:
        return dive(depth + 1) + 1

    try:
        dive(0)
    except RecursionError as error:
        return error
    raise AssertionError


ERRORS: dict[str, Callable[[], BaseException]] = {
    "NUL": lambda: ValueError("a\x00b"),
    "lone surrogate": lambda: ValueError("a\ud800b\udfff"),
    "ANSI": lambda: ValueError("\x1b[31mred\x1b[0m\r\x07\x9b31m"),
    "line separators": lambda: ValueError("a\u2028b\u2029c"),
    "50 MB": lambda: ValueError("x" * 50_000_000),
    "50 MB of emoji": lambda: ValueError("🎉" * 12_500_000),
    "50 MB of NUL": lambda: ValueError("\x00" * 50_000_000),
    "bytes": lambda: ValueError(b"\xff\x00\xfe"),
    "many arguments": lambda: ValueError(*range(10_000)),
    "no words": ValueError,
    "broken __str__": BrokenStr,
    "broken __str__ and __repr__": BrokenBoth,
    "broken __repr__ inside": lambda: ValueError(BrokenBoth()),
    "__str__ of another type": StrOfAnotherType,
    "__str__ of a tricky type": ReturnsTricks,
    "broken __reduce__": BrokenReduce,
    "group of depth 1,000": deep_group,
    "wide group": lambda: ExceptionGroup("wide", [ValueError("x" * 1_000) for _ in range(10_000)]),
    "cyclic cause": cyclic_cause,
    "its own cause": own_cause,
    "chain of 1,000": long_chain,
    "deep recursion": deep_recursion,
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": lambda: SystemExit(3),
    "GeneratorExit": GeneratorExit,
    "long name": lambda: type("N" * 10_000, (Exception,), {})("x"),
    "name with tricks": lambda: type("N", (Exception,), {"__qualname__": "a\x00\ud800\x1b"})("x"),
}


@pytest.mark.parametrize("make", ERRORS.values(), ids=ERRORS)
def test_whatever_was_raised_is_clean_and_bounded(make: Callable[[], BaseException]) -> None:
    assert_fit_to_be_stored(from_exception(raised(make())))


@pytest.mark.parametrize("make", ERRORS.values(), ids=ERRORS)
def test_whatever_was_made_and_never_raised_is_clean_and_bounded(make: Callable[[], BaseException]) -> None:
    assert_fit_to_be_stored(from_exception(make()))


@pytest.mark.parametrize("wrong", [None, 5, b"\xff"])
def test_a_module_that_is_no_text_does_no_harm(wrong: object) -> None:
    error_class = type("Odd", (Exception,), {"__module__": wrong})
    assert_fit_to_be_stored(from_exception(raised(error_class("x"))))


def fail_to_read() -> None:
    try:
        int("x")
    except ValueError as cause:
        message = "no number"
        raise LookupError(message) from cause


def test_an_ordinary_error_says_what_where_and_why() -> None:
    with pytest.raises(LookupError) as caught:
        fail_to_read()
    failure = from_exception(caught.value)
    assert (failure.error_class, failure.message) == ("LookupError", "no number")
    assert failure.traceback is not None
    assert "in fail_to_read" in failure.traceback
    assert "LookupError: no number" in failure.traceback
    assert "invalid literal for int()" in failure.traceback
    assert __file__ in failure.fingerprint


def test_the_class_of_an_error_is_named_with_its_module() -> None:
    assert from_exception(json.JSONDecodeError("m", "d", 0)).error_class == "json.decoder.JSONDecodeError"


def test_a_suppressed_context_is_left_out() -> None:
    error = raised(ValueError("shown"))
    error.__context__ = ValueError("hidden")
    assert "hidden" in (from_exception(error).traceback or "")
    error.__suppress_context__ = True
    assert "hidden" not in (from_exception(error).traceback or "")


def test_failures_of_one_place_share_a_fingerprint_whatever_their_numbers() -> None:
    one, other = (from_exception(raised(ValueError(f"row {number}"))) for number in (1, 2))
    assert one.fingerprint == other.fingerprint
    assert one.message != other.message


def test_failures_without_a_place_share_a_fingerprint_by_their_words() -> None:
    assert (
        from_text("Lost", "worker 12 at 0xff 'a'").fingerprint == from_text("Lost", "worker 7 at 0x0 'b'").fingerprint
    )
    assert from_text("Lost", "a").fingerprint != from_text("Lost", "b").fingerprint
    assert from_text("Lost", "a").fingerprint != from_text("Other", "a").fingerprint


def test_the_frames_kept_are_the_innermost() -> None:
    failure = from_exception(deep_recursion())
    assert failure.traceback is not None
    assert failure.traceback.count("in dive") <= 40
    assert "RecursionError" in failure.traceback


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    text = clean("begin" + "x" * 10_000 + "end", 100)
    assert text.startswith("begin")
    assert text.endswith("end")
    assert len(text) <= 100
    assert clean("short", 100) == "short"


def test_what_acts_on_a_terminal_is_written_out() -> None:
    assert clean("a\x00\x1b\ud800b\tc\nd", 100) == "a\\x00\\x1b\\ud800b\tc\nd"


@steady
@given(st.text(alphabet=st.characters(exclude_categories=())), st.integers(20, 2_000))
def test_any_text_becomes_clean_and_bounded(text: str, most: int) -> None:
    found = clean(text, most)
    assert len(found.encode()) <= most
    assert "\x00" not in found
    assert clean(found, most) == found


@steady
@given(st.text(alphabet=st.characters(exclude_categories=())), st.text(alphabet=st.characters(exclude_categories=())))
def test_any_words_can_be_a_failure(error_class: str, message: str) -> None:
    failure = from_text("E" + error_class, message)
    assert_fit_to_be_stored(failure)
    assert failure.traceback is None


def test_no_traceback_is_kept_twice() -> None:
    error = raised(ValueError("once"))
    failure = from_exception(error)
    assert failure.traceback is not None
    assert failure.traceback.count("ValueError: once") == 1
    assert traceback.extract_tb(error.__traceback__)[-1].name in failure.traceback


def parse_number(text: str) -> Any:
    return json.loads(text)


def test_the_place_of_a_failure_is_the_last_one_in_the_users_own_code() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        parse_number("{")
    assert from_exception(caught.value).fingerprint == f"json.decoder.JSONDecodeError@{__file__}:parse_number"


def test_a_failure_outside_of_the_users_code_is_known_by_its_words() -> None:
    with pytest.raises(InvalidValue) as caught:
        public_id.decode("no id")
    error = caught.value
    error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None  # without this test's own frame
    assert from_exception(error).fingerprint.startswith("holdfast.errors.InvalidValue:")


@pytest.mark.parametrize(
    "one, other",
    [
        ("row 7 of 12", "row 8 of 900"),
        ("no file 'a.txt'", "no file 'b.txt'"),
        ("at 0x7f3a, id 3f9a0c71be42", "at 0x0, id 00ff0c71be42"),
        ("job 6f1e2d3c-aaaa-4bbb-8ccc-0123456789ab", "job 00000000-aaaa-4bbb-8ccc-ffff456789ab"),
    ],
)
def test_what_differs_in_words_is_blanked(one: str, other: str) -> None:
    assert from_text("Lost", one).fingerprint == from_text("Lost", other).fingerprint


def test_words_are_no_numbers() -> None:
    assert from_text("Lost", "the facade decade").fingerprint == "Lost:the facade decade"
