"""The table of legal moves as the documentation shows it; run this file to write it into the page."""

from collections.abc import Iterable

from holdfast.job import JobState
from holdfast.transitions import MOVES
from tests.support.doc_pages import DOCS

PAGE = DOCS / "explain" / "states.md"
BEGIN, END = "<!-- moves: begin -->\n", "<!-- moves: end -->\n"


def table() -> str:
    """Write the moves as a table, in the order of the code."""
    rows = [
        f"| {move.verb} | {_states(move.sources)} | {_states(move.targets)} | {_code(move.event)} |" for move in MOVES
    ]
    return "\n".join(["| Verb | From | To | Event |", "|---|---|---|---|", *rows, ""])


def written() -> str:
    """Read the table that the page has now."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def _states(states: Iterable[JobState | None]) -> str:
    order = [None, *JobState]
    return ", ".join(_code(state) for state in sorted(states, key=order.index))


def _code(text: str | None) -> str:
    return "nothing" if text is None else f"`{text}`"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    PAGE.write_text(before + begin + table() + END + rest.partition(END)[2], encoding="utf-8")
