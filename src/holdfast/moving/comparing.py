"""Comparing rows of two stores: by their meaning, whatever each database makes of spelling and precision."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from typing import Any

from holdfast import public_id
from holdfast.stores.moving import HISTORY, JOBS, Kind, Row, Table, kind_of

_EXACT = Context(prec=10_000, Emin=-999_999, Emax=999_999)
_MICROSECONDS = 1_000  # the finest that every store keeps is a millisecond


def checksum(table: Table, rows: Iterable[Row], columns: Sequence[str]) -> str:
    """Fingerprint rows, in the order of their keys."""
    texts = sorted(_canonical_row(row, [*table.key, *columns]) for row in rows)
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()


def differences(table: Table, sent: Sequence[Row], found: Sequence[Row]) -> list[str]:
    """Name what is missing or differs among the rows that were found, in the words of a person who has to look."""
    columns = sorted(sent[0].keys() & found[0].keys()) if sent and found else []
    if len(sent) == len(found) and checksum(table, sent, columns) == checksum(table, found, columns):
        return []
    by_key = {_key(table, row): row for row in found}
    lines: list[str] = []
    for row in sent:
        other = by_key.get(_key(table, row))
        if other is None:
            lines.append(f"{_named(table, row)} is not there")
            continue
        wrong = [name for name in columns if _canonical(row[name], name) != _canonical(other[name], name)]
        if wrong:
            lines.append(f"{_named(table, row)} differs in {', '.join(wrong)}")
    return lines


def _key(table: Table, row: Row) -> str:
    return _canonical_row(row, table.key)


def _named(table: Table, row: Row) -> str:
    key = [
        public_id.encode(row[name]) if name in _ids(table) else str(_canonical(row[name], name)) for name in table.key
    ]
    return f"{table.name} {' '.join(key)}"


def _ids(table: Table) -> tuple[str, ...]:
    return ("id", "job_id") if table.name in (JOBS.name, HISTORY.name) else ("job_id",)


def _canonical_row(row: Row, columns: Sequence[str]) -> str:
    return json.dumps([_canonical(row[name], name) for name in columns], sort_keys=True)


def _canonical(value: Any, name: str) -> Any:
    kind = kind_of(name)
    if value is None:
        return None
    if kind is Kind.TIME:
        return value // _MICROSECONDS
    if kind is Kind.JSON:
        return json.loads(value, parse_float=_number, parse_int=_number)
    return value


def _number(text: str) -> str:
    """Spell a JSON number in one way: 100, 100.0 and 1e2 are one value. The mark tells it from a text."""
    value = Decimal(text).normalize(_EXACT)
    return f"\x00{value or 0}"
