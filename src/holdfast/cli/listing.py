"""What lists print: a table, JSON, a JSON object a line, CSV, or ids alone."""

import csv
import functools
import io
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import click
import msgspec

from holdfast.cli import options, output
from holdfast.cli.connect import Session, with_store
from holdfast.cli.output import Cell, Column
from holdfast.resources.redaction import redact

T = TypeVar("T")


class Form(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    ID = "id"


_FORMULA = re.compile(r"[=+@\t\r]|-(?!\d+(\.\d+)?$)")
_HELP = "How to print it: table, json, jsonl (an object a line), csv (the same fields), or id. [default: table]"


def form(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a list the options that choose its form; `--json` is short for `-o json`."""

    @functools.wraps(command)
    def chosen(*args: Any, as_json: bool, written_as: str | None, **given: Any) -> Any:
        if as_json and written_as not in (None, Form.JSON):
            message = f"--json and -o {written_as} exclude each other; give one of them"
            raise click.UsageError(message)
        picked = Form.JSON if as_json else Form(written_as or Form.TABLE)
        return command(*args, form=picked, **given)

    written_as = click.option(
        "-o", "--format", "written_as", type=click.Choice([form.value for form in Form]), metavar="FORM", help=_HELP
    )
    return written_as(options.as_json(chosen))


def read(ctx: click.Context, work: Callable[[Session], Awaitable[T]]) -> tuple[T, datetime]:
    """Read what a command shows, and what time it is where it is kept, so that ages are right."""

    async def timed(session: Session) -> tuple[T, datetime]:
        return await work(session), await session.client.now()

    return with_store(ctx, timed)


def write(
    form: Form,
    resource: Any,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    ids: Sequence[str] | None = None,
    empty: str | None = None,
) -> None:
    """Print a list: `resource` is the JSON document, whose first list has an entry for each row.

    JSON, JSON lines and CSV have the fields of the entries; the columns are for people. Ids are the first column unless
    they are given. Where nothing is found, a table says so on stderr.
    """
    if form is Form.JSON:
        output.write_json(resource)
    elif form is Form.JSONL:
        for entry in _listed(resource)[1]:
            click.echo(output.json_line(entry))
    elif form is Form.CSV:
        _write_csv(*_listed(resource))
    elif form is Form.ID:
        for one in [_piped(row[0]) for row in rows] if ids is None else ids:
            output.line(one)
    elif rows or empty is None:
        output.table(columns, rows)
    else:
        output.note(empty)


def _listed(resource: Any) -> tuple[type, Sequence[Any]]:
    """Find what a document lists: the type of the entries of its first list, and the entries."""
    hints = get_type_hints(resource.__class__)
    name = next(name for name, hint in hints.items() if get_origin(hint) is list)
    (kind,) = get_args(hints[name])
    return kind, getattr(resource, name)


def _write_csv(kind: type, entries: Sequence[Any]) -> None:
    """Print the fields of the entries; what is no plain value is JSON text."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    names = [field.name for field in fields(kind)]
    writer.writerow(names)
    for entry in entries:
        values = msgspec.to_builtins(redact(entry))
        writer.writerow([harmless(_text(values[name])) for name in names])
    click.echo(written.getvalue(), nl=False)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return output.one_line(value) if isinstance(value, str) else output.json_line(value)


def harmless(text: str) -> str:
    """Keep spreadsheets from running what somebody has written: with a quote before it, it is text to them."""
    return f"'{text}" if _FORMULA.match(text) else text


def _piped(cell: Cell) -> str:
    return cell.shown if cell.piped is None else cell.piped
