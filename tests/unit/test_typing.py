"""The public interface as a type checker sees it: what is wrong is refused, what is right passes."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
API = ROOT / "tests" / "typing" / "api.py"

_EXPECTATION = re.compile(r"# E: (?P<codes>[a-z -]+)$")
_ERROR = re.compile(r"api\.py:(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$")


def test_mypy_refuses_exactly_the_marked_lines(tmp_path: Path) -> None:
    expected: dict[int, set[str]] = {}
    for number, line in enumerate(API.read_text().splitlines(), start=1):
        if found := _EXPECTATION.search(line):
            expected[number] = set(found["codes"].split())
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file="),
            *("--cache-dir", tmp_path, "--no-error-summary", "--hide-error-context", API),
        ],
        cwd=ROOT / "src",
        capture_output=True,
        text=True,
        check=False,
    )
    assert not checked.stderr
    refused: dict[int, set[str]] = defaultdict(set)
    for line in checked.stdout.splitlines():
        if found := _ERROR.search(line):
            refused[int(found["line"])].add(found["code"])
    assert dict(refused) == expected, checked.stdout
    assert len(expected) > 20


def test_no_line_is_silenced() -> None:
    assert "type: ignore" not in API.read_text()
