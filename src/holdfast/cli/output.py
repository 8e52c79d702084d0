"""What is printed: tables that fit a terminal, tab-separated lines for pipes, JSON for programs.

Everything that comes from a store or a user passes through here, so that no text can act on a terminal: control
characters, escape sequences and marks that reverse the direction of writing are shown as backslash escapes, not sent.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, TextIO

import click
import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from holdfast.resources.redaction import redact

# C0 and C1 controls, line separators, direction marks, lone surrogates.
_DIRECTIONS = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff"
_ACTING = re.compile(f"[\\x00-\\x1f\\x7f-\\x9f{_DIRECTIONS}\ud800-\udfff]")
_ACTING_IN_JSON = re.compile(f"[\\x7f-\\x9f{_DIRECTIONS}\ud800-\udfff]")
_JSON_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
# A URL ends where none can go on. Its password may hold anything else, for people forget to escape it; a port is none.
_UNBROKEN = re.compile(r'[^\s"<>]+')
_USER = re.compile(r"\w://(?!\[)[^:@/]*:(?!\d{1,5}[/?#])")
_SETTING = re.compile(r"((?:ssl)?password\s*=\s*)('[^']*'|[^&\s'\"]*)", re.IGNORECASE)

_GAP = "  "
_CUT = "~"
_NARROWEST = 6

STATE_STYLES = {
    "blocked": "magenta",
    "scheduled": "cyan",
    "queued": "blue",
    "held": "magenta",
    "running": "yellow",
    "completed": "green",
    "completed_with_errors": "dark_orange",
    "failed": "red",
    "cancelled": "bright_black",
}


def one_line(text: str) -> str:
    """Make text safe to print inside a line: line ends and tabs are escaped too."""
    return _ACTING.sub(_escaped, text)  # guard: terminal-escapes, without: return text


def block(text: str) -> str:
    """Make text safe to print over several lines."""
    return "\n".join(one_line(line) for line in text.expandtabs(4).split("\n"))


def without_passwords(text: str) -> str:
    """Hide the passwords of URLs that a text quotes, and those after `password=`; in doubt more, never less."""
    if "@" in text and "://" in text:
        text = _UNBROKEN.sub(_without_password, text)  # guard: terminal-passwords
    return _SETTING.sub(r"\1***", text)  # guard: terminal-passwords, without: return text


def is_terminal() -> bool:
    """Whether a person reads along."""
    return sys.stdout.isatty()


def live_console(stream: TextIO) -> Console | None:
    """Give a console that can draw a line anew; None where nobody reads along, or the terminal cannot do it."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    return console if stream.isatty() and not console.is_dumb_terminal else None


def line(text: str) -> None:
    """Print one line."""
    click.echo(one_line(text))


def lines(text: str) -> None:
    """Print several lines."""
    click.echo(block(text))


def fields(*texts: str) -> None:
    """Print one line for a pipe: texts with tabs in between."""
    click.echo("\t".join(one_line(text) for text in texts))


def note(text: str) -> None:
    """Tell a person something that is not the answer, on stderr."""
    click.echo(one_line(text), err=True)


def styled(*parts: tuple[str, str]) -> None:
    """Print one line of texts and their styles; a pipe gets the texts alone."""
    if is_terminal():
        _console().print(Text.assemble(*((one_line(text), style) for text, style in parts)), soft_wrap=True)
    else:
        line("".join(text for text, _ in parts))


def title(text: str) -> None:
    """Print a title below an empty line."""
    click.echo()
    styled((text, "bold"))


@contextlib.contextmanager
def writing(name: str) -> Iterator[IO[str]]:
    """Open a file to write, or stdout for `-`; a new one is for this user alone, another keeps its mode."""
    if name == "-":
        with click.open_file(name, "w", encoding="utf-8") as stream:
            yield stream
            stream.flush()
        return
    try:
        file = open(name, "w", encoding="utf-8", opener=_private)  # noqa: SIM115 - Path has no opener
    except OSError as error:
        raise click.FileError(name, hint=error.strerror) from error
    with file:
        yield file


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)  # guard: export-mode, without: return os.open(name, flags, 0o666)


# ---- JSON ----------------------------------------------------------------------------------------------------------


def write_json(value: Any) -> None:
    """Print a value as indented JSON, with its secrets covered."""
    click.echo(indented(msgspec.json.encode(redact(value))))


def answer(value: Any, text: str, *, as_json: bool) -> None:
    """Print what a command answers: as JSON, or as one line for people."""
    if as_json:
        write_json(value)
    else:
        line(text)


def json_line(value: Any) -> str:
    """Write a value as one line of JSON, with its secrets covered."""
    return _safe_json(msgspec.json.encode(redact(value)).decode())


def masked_line(value: Any) -> str:
    """Write a value as one line of JSON, with the passwords hidden in each of its texts."""
    return _JSON_TEXT.sub(_masked_text, json_line(value))


def indented(encoded: bytes | str, by: int = 2) -> str:
    """Write JSON over several lines; indented by nothing, in one."""
    formatted = msgspec.json.format(encoded, indent=by)
    return _safe_json(formatted if isinstance(formatted, str) else formatted.decode())


def _safe_json(text: str) -> str:
    # Such characters stand only inside JSON's strings, where \u is their other spelling.
    return _ACTING_IN_JSON.sub(_escaped_in_json, text)  # guard: terminal-escapes-json, without: return text


# ---- tables --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """What a terminal shows, and what a pipe gets when that differs (a time instead of an age)."""

    shown: str
    piped: str | None = None
    style: str = ""


@dataclass(frozen=True)
class Column:
    """A column; when the terminal is narrow, a flexible one gives way, and after that a spare one is left out."""

    title: str
    is_flexible: bool = False
    is_number: bool = False
    is_spare: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table: fitted to a terminal, or whole and separated by tabs."""
    if not is_terminal():
        fields(*(column.title for column in columns))
        for row in rows:
            fields(*(cell.shown if cell.piped is None else cell.piped for cell in row))
        return
    console = _console()
    texts = [[column.title for column in columns], *([one_line(cell.shown) for cell in row] for row in rows)]
    natural = [max(map(cell_len, column)) for column in zip(*texts, strict=True)]
    kept = [index for index, column in enumerate(columns) if not column.is_spare]
    if len(kept) < len(columns) and _narrowest(natural, columns) > console.width:
        table([columns[index] for index in kept], [[row[index] for index in kept] for row in rows])
        return
    widths = _fitted(natural, columns, console.width)
    styles = [["bold"] * len(columns), *([cell.style for cell in row] for row in rows)]
    for row_texts, row_styles in zip(texts, styles, strict=True):
        padded = map(_padded, row_texts, widths, columns)
        drawn = Text(_GAP).join(Text(text, style) for text, style in zip(padded, row_styles, strict=True))
        drawn.rstrip()
        console.print(drawn, soft_wrap=True)


def _narrowest(natural: list[int], columns: Sequence[Column]) -> int:
    """How wide a table is at least."""
    sizes = zip(natural, columns, strict=True)
    taken = sum(min(size, _NARROWEST) if column.is_flexible else size for size, column in sizes)
    return taken + len(_GAP) * (len(columns) - 1)


def _fitted(natural: list[int], columns: Sequence[Column], width: int) -> list[int]:
    """Deal the room that the fixed columns leave to the flexible ones; those that need little get it whole."""
    flexible = [index for index, column in enumerate(columns) if column.is_flexible]
    fixed = sum(size for index, size in enumerate(natural) if index not in flexible)
    room = width - fixed - len(_GAP) * (len(columns) - 1)
    widths = list(natural)
    flexible.sort(key=natural.__getitem__)
    for done, index in enumerate(flexible):
        fair = max(room // (len(flexible) - done), _NARROWEST)
        widths[index] = min(natural[index], fair)
        room -= widths[index]
    return widths


def _padded(text: str, width: int, column: Column) -> str:
    if cell_len(text) > width:
        text = set_cell_size(text, width - len(_CUT)) + _CUT
    return text.rjust(width) if column.is_number else set_cell_size(text, width)


def _console() -> Console:
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


def _without_password(found: re.Match[str]) -> str:
    text = found[0]
    end = text.rfind("@")
    user = _USER.search(text, 0, max(end, 0))
    return text if user is None else f"{text[: user.end()]}***{text[end:]}"


def _masked_text(found: re.Match[str]) -> str:
    """Hide the passwords in one text of JSON; without any it stays as it is written."""
    text: str = json.loads(found[0])
    masked = without_passwords(text)
    return found[0] if masked == text else _safe_json(json.dumps(masked, ensure_ascii=False))


def _escaped_in_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
