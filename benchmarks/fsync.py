"""What a sync of the disk costs here, as `pg_test_fsync` measures it."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

_LINE = re.compile(r"^\s+(\w+)\s+([\d.]+) ops/sec")
_BEGIN, _END = "using one 8kB write", "using two 8kB writes"
_SECONDS = "1"  # for each method


def measured(binary: Path, folder: Path, user: str | None) -> dict[str, float]:
    """Measure syncs per second of one 8 kB write, by method; empty where the program is missing."""
    if not binary.exists():
        return {}
    probe = folder / "fsync-probe"
    command: list[str | Path] = [binary, "-s", _SECONDS, "-f", probe]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, user=user, group=user) as process:
        figures = parsed(process.stdout or ())
        process.terminate()  # what would follow are other sizes, for another quarter of a minute
    probe.unlink(missing_ok=True)
    return figures


def parsed(lines: Iterable[str]) -> dict[str, float]:
    """Read the part about one write, and no further."""
    figures: dict[str, float] = {}
    has_begun = False
    for line in lines:
        has_begun = has_begun or _BEGIN in line
        if _END in line:
            break
        found = _LINE.match(line)
        if has_begun and found is not None:
            figures[found[1]] = float(found[2])
    return figures
