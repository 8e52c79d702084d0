"""A picture of the results: one panel for each measure, one bar for each contestant, a whisker for the range."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

from benchmarks.roster import HOLDFAST, STORES
from benchmarks.runs import Run
from benchmarks.summary import COMPARED, TITLES, Spread, lines, measures_in

_COLUMNS = 2
_BAR_INCHES = 0.27
_PANEL_INCHES = 1.1  # above and below the bars
_WIDTH_INCHES = 6.2
_GAP = 0.5  # between the stores, in bars
_COLOURS = {"postgres": "#33658a", "sqlite": "#2f7d59", "redis": "#b5473c"}
_PALE = {"postgres": "#a9c1d3", "sqlite": "#a9cdbc", "redis": "#e3b7b2"}
_NAMES = {"postgres": "PostgreSQL", "sqlite": "SQLite", "redis": "Redis"}
_GREY = "#555555"


class _Bar(NamedTuple):
    contestant: str
    store: str
    spread: Spread


def draw(runs: Sequence[Run], path: Path) -> None:
    """Draw all measures that there are; nothing where there is none."""
    panels = {measure: _bars(runs, measure) for measure in measures_in(runs)}
    panels = {measure: bars for measure, bars in panels.items() if bars}
    if not panels:
        return
    mpl.use("Agg")  # there may be no screen
    from matplotlib import pyplot as plt  # noqa: PLC0415 - only after the way of drawing is chosen

    rows = [list(panels)[first : first + _COLUMNS] for first in range(0, len(panels), _COLUMNS)]
    heights = [_PANEL_INCHES + _BAR_INCHES * max(len(panels[measure]) for measure in row) for row in rows]
    figure, axes = plt.subplots(
        len(rows),
        _COLUMNS,
        figsize=(_WIDTH_INCHES * _COLUMNS, sum(heights) + 0.7),
        gridspec_kw={"height_ratios": heights},
        squeeze=False,
    )
    for row, places in zip(rows, axes, strict=True):
        for place, axis in enumerate(places):
            if place < len(row):
                _draw_panel(axis, row[place], panels[row[place]])
            else:
                axis.set_visible(False)
    _draw_legend(figure, {bar.store for bars in panels.values() for bar in bars})
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _bars(runs: Sequence[Run], measure: str) -> list[_Bar]:
    """Collect the bars of one panel: by store, and the best of each first."""
    value = COMPARED[measure][0]
    return [
        _Bar(line.contestant, store, line.spreads[value])
        for store in STORES
        for line in lines(runs, store, measure)
        if value in line.spreads
    ]


def _draw_panel(axis: Any, measure: str, bars: Sequence[_Bar]) -> None:
    _, unit, is_less_better = COMPARED[measure]
    stores = list(dict.fromkeys(bar.store for bar in bars))
    places = [-place - _GAP * stores.index(bar.store) for place, bar in enumerate(bars)]
    top = max(bar.spread.high for bar in bars) or 1.0
    for place, bar in zip(places, bars, strict=True):
        axis.barh(place, bar.spread.median, height=0.7, color=_fill(bar), edgecolor=_COLOURS[bar.store])
        axis.plot([bar.spread.low, bar.spread.high], [place, place], color="black", linewidth=1.1)
        axis.text(bar.spread.high + top * 0.012, place, _label(bar.spread.median), va="center", fontsize=8, color=_GREY)
    axis.set_yticks(places, [bar.contestant for bar in bars], fontsize=9)
    for label, bar in zip(axis.get_yticklabels(), bars, strict=True):
        label.set_fontweight("bold" if bar.contestant == HOLDFAST else "normal")
    axis.set_xlim(0, top * 1.16)
    axis.set_ylim(places[-1] - 0.7, 0.7)
    better = "less is better" if is_less_better else "more is better"
    axis.set_title(f"{TITLES[measure]} ({unit}; {better})", fontsize=10, loc="left", fontweight="bold")
    axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(5))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.tick_params(axis="x", labelsize=8, colors=_GREY)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)


def _fill(bar: _Bar) -> str:
    if bar.contestant == "raw":
        return "white"
    return (_COLOURS if bar.contestant == HOLDFAST else _PALE)[bar.store]


def _draw_legend(figure: Any, stores: set[str]) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - after the way of drawing is chosen

    shown = [Patch(color=_COLOURS[store], label=_NAMES[store]) for store in STORES if store in stores]
    shown.append(Patch(facecolor="white", edgecolor=_GREY, label="raw loop, no job system"))
    said = "Medians; the black line is the range over the rounds. Holdfast's bars are full, its peers' pale."
    figure.legend(
        handles=shown, loc="upper left", ncols=len(shown), fontsize=9, frameon=False, bbox_to_anchor=(0.01, 1.0)
    )
    figure.text(0.99, 0.004, said, ha="right", fontsize=8, color=_GREY)
    height = figure.get_figheight()
    figure.tight_layout(rect=(0, 0.25 / height, 1, 1 - 0.4 / height), h_pad=1.4, w_pad=2.0)


def _label(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
