"""The pages of the documentation, and the blocks of code on them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = (README, *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts))

_FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, where it begins, and why it is not run, if it is not."""

    page: Path
    line: int
    language: str
    code: str
    reason: str | None


def name(page: Path) -> str:
    """Name a page as people do."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[Block]:
    """Read the blocks of a page that are written in one of the languages."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text[: found.start("code")].count("\n"), found["language"], found["code"], found["reason"])
        for found in _FENCE.finditer(text)
        if found["language"] in languages
    ]
