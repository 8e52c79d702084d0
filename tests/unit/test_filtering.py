"""The filter language: what each term means, what is said of errors, and that every filter survives its own text."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast import InvalidFilter, InvalidValue, JobFilter, JobState, public_id
from holdfast.client.cursors import cursor_text, read_cursor
from holdfast.filtering import TERMS, both, parse
from holdfast.job import LIVE, TERMINAL, WAITING
from holdfast.stores.values import Cursor

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
JOB = (1234 << 48) | 7_654_321
ID = public_id.encode(JOB)


def where(text: str) -> JobFilter:
    return parse(text, NOW).where


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", {}),
        ("  \t ", {}),
        ("kind:Send_Email", {"kinds": ("send_email",)}),
        ("kind:a,b kind:b,c", {"kinds": ("a", "b", "c")}),
        ("queue:high", {"queues": ("high",)}),
        ("STATE:failed,cancelled", {"states": (JobState.FAILED, JobState.CANCELLED)}),
        ("tag:customer=17", {"tags": (("customer", "17"),)}),
        ("tag:Customer:17", {"tags": (("customer", "17"),)}),
        ('tag:who="Mr X" tag:a=1', {"tags": (("who", "Mr X"), ("a", "1"))}),
        ("tag:a:b=c=d", {"tags": (("a:b", "c=d"),)}),
        ('actor:"alice, of accounts"', {"actor": "alice, of accounts"}),
        ("unique:a:b", {"unique": "a:b"}),
        ("schedule:nightly", {"schedule": "nightly"}),
        (f"parent:{ID} kind:a", {"parent": JOB, "kinds": ("a",)}),
        (f"origin:{ID.upper()}", {"origin": JOB}),
        ("error:TimeoutError", {"error_name": "TimeoutError"}),
        ("error:app.Boom@app/mail.py:send", {"fingerprint": "app.Boom@app/mail.py:send"}),
        ("priority:0,10", {"priorities": (0, 10)}),
        ("since:1h", {"enqueued_from": NOW - timedelta(hours=1)}),
        ("until:2d", {"enqueued_before": NOW - timedelta(days=2)}),
        ("since:2026-11-15", {"enqueued_from": datetime(2026, 11, 15, tzinfo=UTC)}),
        ("finished-since:2026-11-15T09:00+02:00", {"finished_from": datetime(2026, 11, 15, 7, tzinfo=UTC)}),
        ("finished-until:5m", {"finished_until": NOW - timedelta(minutes=5)}),
        ("args.to.city=Rome", {"args": ((("to", "city"), "Rome"),)}),
        ('args."a.b".0="x y"', {"args": ((("a.b", "0"), "x y"),)}),
        ("args.n:5", {"args": ((("n",), "5"),)}),
        ("args.empty=", {"args": ((("empty",), ""),)}),
        ("mail refused", {"words": ("mail", "refused")}),
        ('"connection refused" "kind:x"', {"words": ("connection refused", "kind:x")}),
        (r'"a \"b\" \\ c"', {"words": (r'a "b" \ c',)}),
        ("a=b", {"words": ("a=b",)}),
        (ID, {"ids": (JOB,)}),
        (ID.upper().replace("-", ""), {"ids": (JOB,)}),
        (f"id:{ID} kind:a", {"ids": (JOB,), "kinds": ("a",)}),
        (f'"{ID}"', {"words": (ID,)}),
        (ID[5:], {"id_ending": public_id.ends(ID[5:])}),
        (f"id:{ID[10:]}", {"id_ending": public_id.ends(ID[10:])}),
        (ID[:12], {"id_range": public_id.begins(ID[:12])}),
        ("id:h", {"id_range": public_id.begins("h")}),
        ("0000-0001-46", {"id_ending": public_id.ends("0000-0001-46")}),
        ("case-42 2026-11-15 load-test-01", {"words": ("case-42", "2026-11-15", "load-test-01")}),
    ],
)
def test_a_term_means(text: str, expected: dict[str, Any]) -> None:
    assert where(text) == JobFilter(**expected)


def test_groups_of_states() -> None:
    assert set(where("state:waiting").states) == WAITING
    assert set(where("state:live").states) == LIVE
    assert set(where("state:finished").states) == TERMINAL


def test_parts_of_an_id_find_it_and_few_others() -> None:
    for start in (5, 10):
        ending = public_id.ends(ID[start:])
        assert ending is not None
        assert JOB % ending[0] == ending[1]
        assert (JOB + 1) % ending[0] != ending[1]
        assert (JOB + (1 << 20 if start == 10 else 1 << 40)) % ending[0] != ending[1], "the checksum tells them apart"
    for length in range(1, 15):
        beginning = public_id.begins(ID[:length].rstrip("-"))
        assert beginning is not None
        assert beginning[0] <= JOB <= beginning[1]


def test_a_bare_id_alone_names_its_job() -> None:
    assert parse(ID, NOW).job == JOB
    assert parse(f"{ID} kind:a", NOW).job is None
    assert parse("mail", NOW).job is None


@pytest.mark.parametrize(
    "text, said",
    [
        ("stat:failed", "did you mean state?"),
        ("http://x", "Quotes around it make it text to look for"),
        ("state:faild", "did you mean failed?"),
        ("state:xyz", "expected one of blocked"),
        ("kind:", "expected a kind after the colon, got nothing"),
        ("kind:,", "expected a kind after the colon"),
        ('kind:"a b"', "kind: expected 1 to 64 letters"),
        ("tag:red", "expected tag:name=value"),
        ("tag:a=1 tag:a=2", "tag a: expected it once, got two values"),
        ("actor:a actor:b", "actor: expected it once"),
        ("since:yesterday", "since: expected how long ago"),
        ("since:0001-01-01", "since: expected how long ago"),
        ("since:0001-01-01T00:00+14:00", "since: expected how long ago"),
        ("priority:11", "priority: expected a whole number from 0"),
        ("priority:" + "9" * 1_000, "priority: expected"),
        ("args.=5", "expected args.name=value"),
        ("args.a", "expected args.name=value"),
        ("args.a.$secret=x", "secrets are not searched"),
        ("args." + ".".join("a" * 11) + "=5", "at most 10 names"),
        (ID[:-2] + "00", "checksum"),
        ("id:uuuu", "expected a form like htcx-2s16-z48b-09 or a part of one"),
        ("id:aaaa id:bbbb", "expected one part of an id, got two"),
        ('"open', 'expected a " at the end'),
        ("a\x00b", "without NUL"),
        ("\ud800", "UTF-8"),
        ("x " * 60, "expected at most 50 terms"),
        ("x" * 3_000, "expected at most 2,000 letters"),
        (" ".join("abcdefghijk"), "expected at most 10 words"),
        ("error:a error:b", "error: expected it once"),
        ("parent:", "expected the id of the job that enqueued it after the colon, got nothing"),
        ("parent:z48b-09", "expected a form like htcx-2s16-z48b-09"),
        (f"origin:{ID} origin:{public_id.encode(JOB + 1)}", "origin: expected it once, got two values"),
    ],
)
def test_a_mistake_is_explained(text: str, said: str) -> None:
    with pytest.raises(InvalidFilter) as refused:
        parse(text, NOW)
    assert said in str(refused.value)
    assert str(refused.value).isascii()


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InvalidFilter) as refused:
        parse("kind:a stat:x since:never queue:b", NOW)
    assert [error.term for error in refused.value.errors] == ["stat:x", "since:never"]
    assert str(refused.value).startswith("filter: 2 errors\n")
    assert isinstance(refused.value, InvalidValue)


# ---- text and back -------------------------------------------------------------------------------------------------

VALUES = st.text(max_size=12) | st.sampled_from(["1h", "failed", "5", "2026-11-15", ID, ID[5:], 'a"b', "a b", "\\"])
PIECES = st.one_of(
    st.text(max_size=20),
    st.builds(lambda name, value: f"{name}:{value}", st.sampled_from(TERMS), VALUES),
    st.builds(lambda name, value: f'{name}:"{value}"', st.sampled_from(TERMS), VALUES),
    st.builds(lambda path, value: f"args.{path}={value}", st.text("ab.0\"'", min_size=1, max_size=6), VALUES),
    st.builds(lambda name, value: f"tag:{name}={value}", st.text("ab:-", min_size=1, max_size=4), VALUES),
)


@given(st.lists(PIECES, max_size=6).map(" ".join))
@example('ar"gs."x=1')
@example('"args.x"')
@example('"" a')
@example(f'"{ID}" "{ID[5:]}"')
def test_whatever_is_typed_is_read_or_refused_in_words_and_survives_its_own_text(text: str) -> None:
    try:
        query = parse(text, NOW)
    except InvalidFilter as refused:
        assert refused.errors  # noqa: PT017 - either way is right
        return
    assert parse(query.text(), NOW) == query


# ---- with options --------------------------------------------------------------------------------------------------


def test_two_filters_are_joined() -> None:
    joined = both(where("kind:a tag:x=1 since:1h"), JobFilter(kinds=("b",), tags=(("y", "2"),), actor="alice"))
    assert joined == JobFilter(
        kinds=("a", "b"), tags=(("x", "1"), ("y", "2")), actor="alice", enqueued_from=NOW - timedelta(hours=1)
    )


@pytest.mark.parametrize("other", [JobFilter(actor="bob"), JobFilter(tags=(("x", "2"),))])
def test_what_may_be_there_once_is_refused_twice(other: JobFilter) -> None:
    with pytest.raises(InvalidValue, match=r"once|each name"):
        both(where("actor:alice tag:x=1"), other)


# ---- cursors -------------------------------------------------------------------------------------------------------


def test_a_cursor_survives_its_text() -> None:
    cursor = Cursor(NOW + timedelta(microseconds=7), JOB)
    assert read_cursor(cursor_text(cursor)) == cursor


@pytest.mark.parametrize(
    "text", ["", "x", f"2026-01-01T00:00:00/{ID}", "2026-01-01T00:00:00Z/x", "0001-01-01T00:00+14:00/"]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="after: expected the cursor that a page gave"):
        read_cursor(text)
