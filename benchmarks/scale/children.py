"""Programs that a run starts, each a module of this project in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_PATIENCE_S = 30


def run(module: str, *arguments: object, env: Mapping[str, str] | None = None) -> Any:
    """Run a module to its end and read the line of JSON that it prints."""
    with beside(module, *arguments, env=env) as child:
        answer, _ = child.communicate()
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, child.args)
    return json.loads(answer.splitlines()[-1])


@contextmanager
def beside(module: str, *arguments: object, env: Mapping[str, str] | None = None) -> Iterator["subprocess.Popen[str]"]:
    """Run a module while the block runs; the end of its standard input tells it to leave."""
    child = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=_ROOT,
        env=env,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield child
        if child.poll() is None:
            child.communicate(timeout=_PATIENCE_S)
    finally:
        child.kill()
        child.communicate()
