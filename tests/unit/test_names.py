"""The limits of names, keys, tags and numbers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import names
from holdfast.errors import InvalidValue

steady = settings(deadline=None, derandomize=True)  # a busy machine is no failure

HOSTILE = ["'\";--", 'a"; drop table', "%", "emoji 🎉", "\u202eright to left", "line\nbreak", "../", "\\", " "]


@pytest.mark.parametrize("value", ["a", "send_email", "a.b:c-d_e", "0", "x" * 64])
def test_names_are_kept(value: str) -> None:
    assert names.name(value, "kind") == value


def test_names_are_stored_in_lower_case() -> None:
    assert names.name("Send.EMAIL", "kind") == "send.email"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x" * 65,
        "x" * 10_000,
        "a b",
        "a\n",
        "\na",
        "ü",
        "\u017f",
        "\u212a",
        "٣",
        "a\x00",
        *HOSTILE,
        None,
        5,
        b"a",
        ["a"],
    ],
)
def test_other_names_are_refused_with_a_short_message(value: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^queue: expected 1 to 64 letters") as raised:
        names.name(value, "queue")
    assert len(str(raised.value)) < 200
    assert str(raised.value).isascii()
    assert str(raised.value).isprintable()


def test_names_that_share_a_long_prefix_stay_different() -> None:
    assert names.name("x" * 63 + "a", "kind") != names.name("x" * 63 + "b", "kind")


@steady
@given(st.text(max_size=70))
def test_a_name_is_lower_case_ascii_or_refused(value: str) -> None:
    try:
        found = names.name(value, "kind")
    except InvalidValue:
        return
    assert found.isascii()
    assert found == value.lower()
    assert 1 <= len(found) <= 64


@pytest.mark.parametrize("value", [*HOSTILE, "x" * 512, "ü" * 256, "\x01"])
def test_keys_are_free_text(value: str) -> None:
    assert names.key(value, "unique") == value


@pytest.mark.parametrize("value", ["", "x" * 513, "ü" * 257, "🎉" * 129, "a\x00b", "\ud800", None, 5, b"x"])
def test_keys_outside_their_limits_are_refused(value: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^key: expected text of 1 to 512 bytes") as raised:
        names.key(value, "key")
    assert len(str(raised.value)) < 200
    assert str(raised.value).isascii()


@pytest.mark.parametrize("value", [0, 5, 10])
def test_priorities_from_0_to_10_are_kept(value: int) -> None:
    assert names.priority(value) == value


@pytest.mark.parametrize("value", [-1, 11, 10**100, 5.0, "5", True, None])
def test_other_priorities_are_refused(value: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^priority: expected a whole number from 0"):
        names.priority(value)


@pytest.mark.parametrize("value", [0, -1, 1_000_001, 1.5, "1", True, None])
def test_counts_below_one_or_too_large_are_refused(value: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^max_attempts: expected a whole number from 1 to 1000000"):
        names.count(value, "max_attempts")


def test_counts_within_their_limits_are_kept() -> None:
    assert (names.count(1, "n"), names.count(7, "n", 7)) == (1, 7)
    with pytest.raises(InvalidValue):
        names.count(8, "n", 7)


def test_tags_are_a_flat_mapping_of_texts() -> None:
    assert names.tags({"Customer": "42", "a.b": "'\";--🎉\n"}) == {"customer": "42", "a.b": "'\";--🎉\n"}
    assert names.tags({}) == {}
    assert len(names.tags({f"t{number}": "v" for number in range(names.TAGS)})) == names.TAGS


@pytest.mark.parametrize(
    "value",
    [
        {f"t{number}": "v" for number in range(names.TAGS + 1)},
        {"a b": "v"},
        {"": "v"},
        {"a": ""},
        {"a": 5},
        {"a": None},
        {"a": {"b": "c"}},
        {"a": "\x00"},
        {"a": "\udfff"},
        {"a": "x" * 513},
        {5: "v"},
        ["a"],
        "a",
        None,
    ],
)
def test_other_tags_are_refused(value: Any) -> None:
    with pytest.raises(InvalidValue):
        names.tags(value)
