"""The public surface is what was reviewed; `python scripts/dump_surface.py` writes it anew."""

import difflib
from pathlib import Path

import pytest

from tests.surface.parts import FOLDER, PARTS, SQL, describe_sql_part

_MOST_SHOWN = 60


def compare(name: str, found: str) -> None:
    """Fail with the difference, and say what to do."""
    written = (FOLDER / name).read_text(encoding="utf-8")
    if found == written:
        return
    changes = list(difflib.unified_diff(written.splitlines(), found.splitlines(), name, "now", n=1, lineterm=""))
    more = f"\n... and {len(changes) - _MOST_SHOWN} lines more" if len(changes) > _MOST_SHOWN else ""
    shown = "\n".join(changes[:_MOST_SHOWN])
    pytest.fail(
        f"the public surface has changed: review the difference and run `python scripts/dump_surface.py {name}`\n"
        f"{shown}{more}",
        pytrace=False,
    )


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_what_was_reviewed(name: str, tmp_path: Path) -> None:
    compare(name, PARTS[name](tmp_path))


def test_the_sql_is_what_was_reviewed(dsn: str, schema: str, tmp_path: Path) -> None:
    compare(SQL, describe_sql_part(dsn, schema, tmp_path))


def test_no_other_file_lies_there() -> None:
    found = {file.name for file in FOLDER.iterdir() if file.suffix in (".txt", ".json")}
    assert found == {*PARTS, SQL}
