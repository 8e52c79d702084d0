"""Showing what was found: on the terminal, as JSON, as Markdown, and as plots where matplotlib is installed."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.scale.report import Curves, Figure, Report, Table, shown

_PLOTTER = "matplotlib"


def show(report: Report) -> None:
    """Print the tables and figures of one run."""
    console = Console(width=None if Console().is_terminal else 180)
    for table in report.tables:
        grid = Grid(title=table.title, title_justify="left")
        for number, column in enumerate(table.columns):
            grid.add_column(column, justify="left" if number == 0 else "right")
        for row in table.rows:
            grid.add_row(*map(shown, row))
        console.print(grid)
    for line in (*map(str, report.figures), *report.notes):
        console.print(line, highlight=False)


def write(folder: Path, machine: Mapping[str, object], reports: Sequence[Report]) -> list[str]:
    """Write all files; give a line for each."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = [
        {"text": figure.text, "value": figure.value, "wanted": figure.wanted, "verdict": figure.verdict}
        for report in reports
        for figure in report.figures
    ]
    content = {"machine": dict(machine), "figures": figures, "runs": list(reports)}
    (folder / "scale.json").write_bytes(msgspec.json.encode(content))
    (folder / "scale.md").write_text(_markdown(machine, reports), encoding="utf-8")
    lines = [f"wrote {folder / name}" for name in ("scale.json", "scale.md")]
    if importlib.util.find_spec(_PLOTTER) is None:
        return [*lines, f"no plots: {_PLOTTER} is not installed"]
    return lines + [f"wrote {_plot(folder, curves)}" for report in reports for curves in report.curves]


def _markdown(machine: Mapping[str, object], reports: Sequence[Report]) -> str:
    parts = ["# Scale runs", ", ".join(f"{name} {value}" for name, value in machine.items())]
    if figures := [figure for report in reports for figure in report.figures]:
        parts.append(_figures(figures))
    for report in reports:
        parts.append(f"## {report.title}")
        parts += [f"{table.title}:\n\n{_rows(table)}" for table in report.tables]
        parts += report.notes
    return "\n\n".join(parts) + "\n"


def _figures(figures: Sequence[Figure]) -> str:
    lines = [
        (figure.text, f"{figure.value:.2f}", f"{'>=' if figure.at_least else '<='} {figure.wanted:g}", figure.verdict)
        for figure in figures
    ]
    return _rows(Table("", ["figure", "value", "wanted", ""], lines))


def _rows(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.columns), *(list(map(shown, row)) for row in table.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plot(folder: Path, curves: Curves) -> Path:
    import matplotlib as mpl  # noqa: PLC0415 - only where it is installed

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after its backend is chosen

    figure, axes = plt.subplots(figsize=(8, 4.5))
    for name, points in curves.lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=name)
    if curves.is_logarithmic:
        axes.set_xscale("log")
    axes.set(title=curves.title, xlabel=curves.x, ylabel=curves.y, ylim=(0, None))
    axes.legend()
    path = folder / f"scale-{curves.name}.png"
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
    return path
