"""What lists print: a table, JSON, a JSON object a line, CSV, or ids alone."""

import csv
import functools
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import Any

import click
import msgspec

from holdfast.cli import options, output
from holdfast.cli.output import Cell, Column


class Form(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    ID = "id"


_FORMULA = re.compile(r"[=+@\t\r]|-(?!\d+(\.\d+)?$)")
_HELP = "How to print it: table, json, jsonl (an object a line), csv, or id (ids alone). [default: table]"


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


def write(
    form: Form,
    shape: Any,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    ids: Sequence[str] | None = None,
    empty: str | None = None,
) -> None:
    """Print a list: `shape` is the JSON document, whose first list has an entry for each row.

    Ids are the first column unless they are given. Where nothing is found, a table says so on stderr.
    """
    if form is Form.JSON:
        output.write_json(shape)
    elif form is Form.JSONL:
        for entry in entries(shape):
            click.echo(output.json_line(entry))
    elif form is Form.CSV:
        _write_csv(columns, rows)
    elif form is Form.ID:
        for one in [_piped(row[0]) for row in rows] if ids is None else ids:
            output.line(one)
    elif rows or empty is None:
        output.table(columns, rows)
    else:
        output.note(empty)


def entries(shape: Any) -> Sequence[Any]:
    """Find what a document lists."""
    values = shape.values() if isinstance(shape, dict) else [getattr(shape, name) for name in _fields(shape)]
    return next((value for value in values if isinstance(value, list | tuple)), ())


def _fields(shape: Any) -> Sequence[str]:
    return shape.__struct_fields__ if isinstance(shape, msgspec.Struct) else [field.name for field in fields(shape)]


def _write_csv(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(column.title.lower().replace(" ", "_") for column in columns)
    writer.writerows([harmless(output.one_line(_piped(cell))) for cell in row] for row in rows)
    click.echo(written.getvalue(), nl=False)


def harmless(text: str) -> str:
    """Keep spreadsheets from running what somebody has written: with a quote before it, it is text to them."""
    return f"'{text}" if _FORMULA.match(text) else text


def _piped(cell: Cell) -> str:
    return cell.shown if cell.piped is None else cell.piped
