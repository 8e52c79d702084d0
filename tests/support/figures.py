"""Figures that are told, not asserted: seen with `pytest -rP` (or `-s`)."""

import sys


def show(line: str) -> None:
    """Write a line to the output of the test."""
    sys.stdout.write(f"\n{line}\n")
