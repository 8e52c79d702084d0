"""Print the longest files and functions under a folder; fail when one is over its limit."""

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FILE_LIMIT = 600
FUNCTION_LIMIT = 80
SHOWN = 10

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Size(NamedTuple):
    """How many lines something has, and where it stands."""

    lines: int
    place: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Report on one folder; the answer is the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the sources lie, for example src")
    folder: Path = parser.parse_args(arguments).folder
    files = [*measure_files(folder)]
    if not files:
        print(f"size report: no .py or .sql file under {folder}", file=sys.stderr)
        return 1
    functions = [*measure_functions(folder)]
    show(f"Longest files (limit {FILE_LIMIT} lines)", files)
    show(f"Longest functions (limit {FUNCTION_LIMIT} lines, docstring not counted)", functions)
    return 1 if complain(files, FILE_LIMIT) | complain(functions, FUNCTION_LIMIT) else 0


def measure_files(folder: Path) -> Iterator[Size]:
    """Count the lines of each Python and SQL file."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".py", ".sql"}:
            yield Size(len(path.read_text(encoding="utf-8").splitlines()), str(path))


def measure_functions(folder: Path) -> Iterator[Size]:
    """Count the lines of each function and method; one inside another counts for both."""
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for name, function in named_functions(tree):
            yield Size(function_lines(function), f"{path}:{function.lineno} {name}")


def named_functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, FunctionNode]]:
    """Find the functions below a node, each with its dotted name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FunctionNode):
            yield prefix + child.name, child
        inner = f"{prefix}{child.name}." if isinstance(child, FunctionNode | ast.ClassDef) else prefix
        yield from named_functions(child, inner)


def function_lines(function: FunctionNode) -> int:
    """Count from `def` to the last line, without the docstring."""
    lines = line_count(function)
    return lines - line_count(function.body[0]) if ast.get_docstring(function, clean=False) is not None else lines


def line_count(node: ast.stmt) -> int:
    """Count the lines that a statement takes."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def show(title: str, sizes: Sequence[Size]) -> None:
    """Print the longest of them, the longest first."""
    print(title)
    for size in sorted(sizes, key=lambda size: -size.lines)[:SHOWN]:
        print(f"{size.lines:6}  {size.place}")


def complain(sizes: Sequence[Size], limit: int) -> bool:
    """Name everything above the limit; tell whether there was any."""
    above = [size for size in sizes if size.lines > limit]
    for size in above:
        print(f"size report: {size.place} has {size.lines} lines, the limit is {limit}: split it", file=sys.stderr)
    return bool(above)


if __name__ == "__main__":
    sys.exit(main())
