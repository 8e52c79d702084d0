"""What is printed: nothing acts on a terminal, tables fit, pipes and programs get what they can read."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import ages
from holdfast.cli import output
from tests.cli import working
from tests.cli.conftest import Shop
from tests.cli.working import HOSTILE

ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def in_terminal(shop: Shop, columns: int, *args: str, **env: str) -> tuple[int, str]:
    """Run a real process whose stdout is a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "HOLDFAST_APP": "shop:app", **env}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *args],
        cwd=shop.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    received = b""
    while True:
        try:
            some = os.read(ours, 65_536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not some:
            break
        received += some
    os.close(ours)
    return process.wait(), received.decode().replace("\r\n", "\n")


@pytest.fixture
def hostile(sqlite_shop: Shop) -> Shop:
    """A store in which every text that a user may choose tries to take over the terminal."""
    shop = sqlite_shop
    shop.enqueue("send_email", f"to={HOSTILE}", "--actor", HOSTILE, "--tag", f"x={HOSTILE}", "--unique", HOSTILE)
    shop.enqueue("transcode", f"url={HOSTILE}", "--key", HOSTILE)
    shop.on_store(lambda store: working.fail(store, "bulk"))
    cancelled = shop.enqueue("resize", f"path={HOSTILE}", "width=1")
    shop.ok("jobs", "cancel", cancelled, "--actor", HOSTILE, "--reason", HOSTILE)
    shop.ok("queues", "pause", "high", "--actor", HOSTILE, "--reason", HOSTILE)
    return shop


@pytest.mark.guards("terminal-escapes", "terminal-escapes-json")
def test_no_text_acts_on_a_terminal(hostile: Shop) -> None:
    commands = [["jobs", "list"], ["queues", "list"], ["doctor"]]
    commands += [["jobs", "show", job_id] for job_id in hostile.ok("jobs", "list", "-q").split()]
    for command in commands:
        for more in ([], ["--json"]):
            text = hostile.ok(*command, *more)
            assert not ACTING.search(text), (command, more)
            assert "[red]x[/red]" in text
    rows = hostile.ok("jobs", "list").splitlines()
    assert len(rows) == 4
    assert {row.count("\t") for row in rows} == {6}, "text with tabs and line ends stays in its cell"


def test_json_gives_the_text_back_unchanged(hostile: Shop) -> None:
    (job,) = json.loads(hostile.ok("jobs", "list", "--kind", "send_email", "--json"))["jobs"]
    assert job["args"]["to"] == job["actor"] == job["tags"]["x"] == job["unique_key"] == HOSTILE


def test_what_was_typed_is_escaped_in_errors(sqlite_shop: Shop) -> None:
    for args in (["jobs", "show", HOSTILE], ["enqueue", HOSTILE], [HOSTILE], ["jobs", "list", f"--{HOSTILE}"]):
        result = sqlite_shop(*args)
        assert result.exit_code in (2, 3)
        assert not ACTING.search(result.stderr), args


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit_the_terminal(hostile: Shop, columns: int) -> None:
    for command in (["jobs", "list"], ["queues", "list"]):
        code, text = in_terminal(hostile, columns, *command)
        assert code == 0
        assert STYLE.search(text), "in colour"
        plain = STYLE.sub("", text)
        assert not ACTING.search(plain)
        assert all(len(line) <= columns for line in plain.splitlines()), plain
        assert "ENQUEUED" in plain or "SCHEDULED" in plain


def test_no_color(hostile: Shop) -> None:
    _, text = in_terminal(hostile, 80, "jobs", "list", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", text)


def test_the_page_of_a_job_in_a_terminal(hostile: Shop) -> None:
    job_id = hostile.ok("jobs", "list", "-q", "--state", "failed").strip()
    code, text = in_terminal(hostile, 80, "jobs", "show", job_id)
    plain = STYLE.sub("", text)
    assert code == 0
    assert plain.startswith(f"{job_id}  transcode  failed\n  why         ValueError: no codec ")
    assert not ACTING.search(plain)


@pytest.mark.guards("terminal-passwords")
def test_passwords_are_hidden_wherever_they_stand() -> None:
    for text in (
        "cannot connect to postgresql://u:s3cret@h:5/db: no",
        "postgresql://u:s3c@ret/s3cret@h/db",
        "x://:s3cret@h",
        "postgresql://h/db?user=u&password=s3cret&x=1",
        "host=h password='s3cret x' user=u",
        "sslpassword = s3cret",
    ):
        assert "s3c" not in output.without_passwords(text), text
    for text in (
        "at 10:30 by a@b, see https://h/p",
        "http://h:8080/x?to=a@b",
        "http://[::1]:8080/x@y",
        'http://h:x","to":"a@b',
    ):
        assert output.without_passwords(text) == text


TEXTS = st.text(st.one_of(st.sampled_from('"\\:/@ \n\u2028{},'), st.characters(codec="utf-8")), max_size=40)
WORDS = st.text("ab1%+.-_", min_size=1, max_size=9)
PASSWORDS = st.text("abc:/?#@!$'();,=%{}[]\\", max_size=9).map(lambda text: f"p{text}")
PLAIN = TEXTS.filter(lambda text: "://" not in text and "password" not in text.lower())


@st.composite
def quoting(draw: st.DrawFn) -> tuple[str, str]:
    """Give a text that quotes URLs with and without a password, and what should be shown of it."""
    before, after, host, user = draw(PLAIN), draw(PLAIN), draw(WORDS), draw(WORDS)
    port = draw(st.integers(1, 65_535))
    head = f"{before} http://{host}:{port}/{draw(WORDS)} postgresql://{user}:"
    tail = f"@{host}:{port}/{draw(WORDS)} {after}"
    return f"{head}{draw(PASSWORDS)}{tail}", f"{head}***{tail}"


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False, allow_infinity=False))
    | PLAIN.map(lambda text: (text, text))
    | quoting(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN, inner, max_size=4),
    max_leaves=12,
)


def side(value: Any, index: int) -> Any:
    """Take what is written, or what should be shown."""
    if isinstance(value, tuple):
        return value[index]
    if isinstance(value, list):
        return [side(inner, index) for inner in value]
    return {name: side(inner, index) for name, inner in value.items()} if isinstance(value, dict) else value


@pytest.mark.guards("terminal-passwords")
@settings(deadline=None)
@given(VALUES)
def test_a_line_of_an_export_stays_json_and_loses_its_passwords_alone(value: Any) -> None:
    line = output.masked_line(side(value, 0))
    assert "\n" not in line
    assert json.loads(line) == json.loads(output.json_line(side(value, 1)))


@pytest.mark.parametrize("piece", ["x://a:", "x://a:1/", "a@", "password='", "password = ", '"\\', "x://a:b@c,", "://"])
def test_hiding_passwords_costs_in_proportion_to_the_text(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    began = time.process_time()
    output.masked_line(text)
    assert time.process_time() - began < 5


def test_a_wide_letter_counts_twice() -> None:
    column = output.Column("A", is_flexible=True)
    assert output._padded("漢字漢字", 5, column) == "漢字~"
    assert output._padded("漢字", 5, column) == "漢字 "


def test_narrow_columns_keep_what_they_need() -> None:
    columns = (output.Column("ID"), output.Column("KIND", is_flexible=True), output.Column("X", is_flexible=True))
    assert output._fitted([17, 10, 100], columns, 80) == [17, 10, 49]
    assert output._fitted([17, 50, 100], columns, 80) == [17, 29, 30]
    assert output._fitted([17, 50, 100], columns, 10) == [17, 6, 6]
    assert output._fitted([17, 5, 5], columns, 80) == [17, 5, 5]


@pytest.mark.parametrize(
    "seconds, expected",
    [(0, "just now"), (5, "5s ago"), (90, "1m ago"), (7_300, "2h ago"), (200_000, "2d ago"), (-600, "in 10m")],
)
def test_ages(seconds: int, expected: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert ages.age(now - timedelta(seconds=seconds), now) == expected


@pytest.mark.parametrize(
    "seconds, expected",
    [(0.02, "20ms"), (2.14, "2.1s"), (65, "1m 5s"), (3_600, "1h"), (90_061, "1d 1h"), (86_430, "1d"), (-1, "0ms")],
)
def test_spans(seconds: float, expected: str) -> None:
    assert ages.span(timedelta(seconds=seconds)) == expected
