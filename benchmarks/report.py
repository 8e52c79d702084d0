"""What a benchmark says at its end, as text: a table for the terminal, and the same as Markdown for a page."""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.figures import Figure, all_figures
from benchmarks.roster import STORES
from benchmarks.runs import Run
from benchmarks.summary import COMPARED, TITLES, Line, Spread, is_tie, lines, measures_in

_NAMES = {"postgres": "PostgreSQL", "sqlite": "SQLite", "redis": "Redis"}
_HEAD = ("contestant", "median", "range", "to Holdfast", "client CPU s", "server CPU s", "also")
_ALSO: Mapping[str, Sequence[tuple[str, str]]] = {
    "pickup": (("p50", "p50_ms"), ("p99", "p99_ms")),
    "lone": (("p50", "p50_ms"), ("p99", "p99_ms"), ("p95 from the call", "call_p95_ms")),
    "commit": (("p50", "p50_ms"), ("p99", "p99_ms")),
    "idle": (("server %", "server_percent"),),
}

Row = Sequence[str]


def tables(runs: Sequence[Run]) -> Iterator[tuple[str, Row, list[Row]]]:
    """Give each table: its title, its head and its rows."""
    for measure in measures_in(runs):
        for store in STORES:
            found = lines(runs, store, measure)
            if found:
                title = f"{TITLES[measure]} - {_NAMES[store]} ({COMPARED[measure][1]})"
                yield title, _HEAD, [_row(line, measure) for line in found]
    figures = [_figure_row(figure) for figure in all_figures(runs)]
    yield "Figures to reach", ("figure", "wanted", "found", "range", ""), figures


def _row(line: Line, measure: str) -> Row:
    main = line.spreads.get(COMPARED[measure][0])
    also = [
        f"{name} {_number(line.spreads[key].median)}" for name, key in _ALSO.get(measure, ()) if key in line.spreads
    ]
    if line.failed:
        also.append(f"FAILED {line.failed} of {line.rounds}")
    is_memory = measure == "memory"
    return (
        line.contestant,
        "-" if main is None else _number(main.median),
        "-" if main is None else _range(main),
        _compared(line.ratio),
        "" if is_memory else _cpu(line.spreads.get("client_cpu_s")),
        "" if is_memory else _cpu(line.spreads.get("server_cpu_s")),
        ", ".join(also),
    )


def _figure_row(figure: Figure) -> Row:
    if figure.found is None:
        return figure.name, figure.wanted, "-", "-", "not measured"
    said = "reached" if figure.is_reached else "short"
    return figure.name, figure.wanted, f"{figure.found.median:.2f}", _exact(figure.found), said


def _compared(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.2f} x" + (", tie" if is_tie(ratio) and ratio != 1 else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _range(found: Spread) -> str:
    return f"{_number(found.low)} to {_number(found.high)}"


def _exact(found: Spread) -> str:
    return f"{found.low:.2f} to {found.high:.2f}"


def _cpu(found: Spread | None) -> str:
    return "" if found is None else f"{found.median:.3f}"


def failures(runs: Sequence[Run]) -> list[str]:
    """Name every run that gave no figure, or whose jobs did not all run exactly once."""
    return [
        f"{run.contestant} on {run.store}, {run.measure}, round {run.round}: {problem}"
        for run in runs
        for problem in run.problems
    ]


def as_text(runs: Sequence[Run], left_out: Mapping[str, str]) -> str:
    """Lay the tables out for a terminal."""
    parts = []
    for title, head, rows in tables(runs):
        widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
        parts.append("\n".join(["", title, *(_laid_out(row, widths) for row in (head, *rows))]))
    parts += [f"LEFT OUT {name}: {reason}" for name, reason in left_out.items()]
    parts += [f"FAILED {failure}" for failure in failures(runs)]
    return "\n".join(parts)


def _laid_out(row: Row, widths: Sequence[int]) -> str:
    cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    cells[0] = row[0].ljust(widths[0])
    return "  " + "  ".join(cells).rstrip()


def as_markdown(runs: Sequence[Run], about: Mapping[str, object], left_out: Mapping[str, str]) -> str:
    """Write the tables for a page, with where they come from."""
    parts = ["# Results", "", *_facts(about)]
    for title, head, rows in tables(runs):
        parts += ["", f"## {title}", "", _piped(head), _piped(["---"] * len(head)), *map(_piped, rows)]
    if left_out:
        parts += ["", "## Left out", "", *(f"- {name}: {reason}" for name, reason in left_out.items())]
    found = failures(runs)
    if found:
        parts += ["", "## Failed runs", "", *(f"- {failure}" for failure in found)]
    return "\n".join(parts) + "\n"


def _piped(row: Row) -> str:
    return f"| {' | '.join(row)} |"


def _facts(about: Mapping[str, object]) -> Iterator[str]:
    """Spell nested facts as a nested list."""
    for name, value in about.items():
        yield from _fact(name, value, "")


def _fact(name: str, value: object, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield f"{indent}- {name}:"
        for inner, fact in value.items():
            yield from _fact(str(inner), fact, indent + "  ")
    else:
        yield f"{indent}- {name}: {value}"
