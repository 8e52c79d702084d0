"""What `bench` prints: what was measured and where, a table of figures, and how to read it."""

import os
import platform

from holdfast.bench.figure import TIE, Figure, Unit
from holdfast.bench.plan import Part, Plan
from holdfast.bench.report import Report
from holdfast.cli import bench_shapes, output
from holdfast.cli.output import Cell, Column
from holdfast.config import Settings
from holdfast.locations import masked
from holdfast.release import RELEASE

_COLUMNS = (
    Column("MEASURE"),
    Column("MEDIAN", is_number=True),
    Column("LOWEST", is_number=True),
    Column("HIGHEST", is_number=True),
    Column("UNIT"),
    Column("x INSERT", is_number=True),
)
_DIGITS = {Unit.MILLISECONDS: 1, Unit.CORE: 2}
_FEW = 10
_READING = {
    Part.INSERT: "bare INSERT is what disk and link allow: one row and one commit at a time, without Holdfast",
    Part.ENQUEUE: "one by one waits for a commit each time; coroutines share commits; a bulk is one commit",
    Part.DRAIN: "a drain is bound by commits and processors; ends and the next claim share a commit",
    Part.PICKUP: "pickup is from the call of enqueue, commit included, to the handler in another process",
    Part.IDLE: "an idle worker is one process and its supervisor",
}
_RISKS = {
    ("synchronous_commit", "off"): "a crash of the server can lose jobs whose enqueue had returned",
    ("fsync", "off"): "a power cut can destroy the whole database",
    ("full_page_writes", "off"): "a power cut can damage the database",
    ("synchronous", "normal"): "a power cut can lose jobs whose enqueue had returned",
}


# ---- for people ----------------------------------------------------------------------------------------------------


def write(report: Report, plan: Plan, settings: Settings) -> None:
    """Print the report for people."""
    for title, text in _about(report, plan, settings).items():
        output.styled((f"{title:<10}", "bold"), (text, ""))
    output.line("")
    insert = next((figure for figure in report.figures if figure.name == "insert"), None)
    output.table(_COLUMNS, [_row(figure, insert) for figure in report.figures])
    output.line("")
    if report.jobs:
        output.styled((f"each of {report.jobs:,} jobs ran exactly once, and the store shows nothing open", "green"))
        output.line("")
    for hint in _hints(report, plan):
        output.line(f"- {hint}")


def _about(report: Report, plan: Plan, settings: Settings) -> dict[str, str]:
    facts = report.facts
    run = f"{_counted(plan.rounds, 'round')}, {plan.jobs:,} jobs in bulk and to drain, concurrency {plan.concurrency}"
    machine = f"{_counted(_cores(), 'core')}, {platform.system()} {platform.machine()}"
    return {
        "store": masked(settings.url),
        "database": ", ".join([facts.software, *(f"{key} {value}" for key, value in facts.settings.items())]),
        "machine": f"{machine}, Python {platform.python_version()}, Holdfast {RELEASE}",
        "run": run,
    }


def _row(figure: Figure, insert: Figure | None) -> list[Cell]:
    ratio = figure.against(insert) if insert is not None and figure.is_rate else None
    return [
        Cell(figure.label),
        _cell(figure, figure.median),
        *(_cell(figure, value, "yellow" if _swings(figure) else "") for value in (figure.low, figure.high)),
        Cell(figure.unit),
        Cell("") if ratio is None else Cell(f"{ratio:.{2 if ratio < _FEW else 1}f}", f"{ratio:.4g}"),
    ]


def _cell(figure: Figure, value: float, style: str = "") -> Cell:
    return Cell(f"{value:,.{_DIGITS.get(figure.unit, 0)}f}", f"{value:.6g}", style)


def _swings(figure: Figure) -> bool:
    """Whether the rounds of a rate are too far apart to be trusted; single latencies always are."""
    return figure.is_rate and not figure.is_steady


def _hints(report: Report, plan: Plan) -> list[str]:
    """Say how to read the figures that are there."""
    hints = [text for part, text in _READING.items() if part in plan.parts]
    hints.append(f"figures less than {TIE:g} x apart are a tie: shared machines swing by more within minutes")
    if report.load > _cores() / 2:
        busy = f"the machine was busy before it began (load {report.load:.1f} on {_counted(_cores(), 'core')})"
        hints.append(f"{busy}: a quiet one shows higher figures")
    swinging = sum(_swings(figure) for figure in report.figures)
    if swinging:
        found = f"{_counted(swinging, 'rate')} swung by more than {TIE:g} x between rounds (LOWEST, HIGHEST)"
        hints.append(f"{found}: measure again when the machine is quiet, or with more --rounds")
    settings = report.facts.settings.items()
    return hints + [f"{key} is {value}: {_RISKS[key, value]}" for key, value in settings if (key, value) in _RISKS]


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


# ---- for programs --------------------------------------------------------------------------------------------------


def write_json(report: Report, plan: Plan, settings: Settings) -> None:
    """Print the report for programs."""
    output.write_json(
        bench_shapes.BenchShape(
            store=masked(settings.url),
            database=bench_shapes.DatabaseShape(report.facts.software, dict(report.facts.settings)),
            machine=bench_shapes.MachineShape(
                cores=_cores(),
                load_before=report.load,
                platform=platform.platform(),
                python=platform.python_version(),
                holdfast=RELEASE,
            ),
            plan=bench_shapes.BenchPlanShape(
                jobs=plan.jobs,
                rounds=plan.rounds,
                concurrency=plan.concurrency,
                processes=plan.processes,
                parts=[part.value for part in Part if part in plan.parts],
            ),
            figures=[bench_shapes.figure(figure) for figure in report.figures],
            jobs_run=report.jobs,
        )
    )


def _cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
