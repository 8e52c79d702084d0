"""Lines of a file to which other processes add, and which a kill may cut."""

from pathlib import Path


def whole_lines(path: Path) -> list[str]:
    """Read the lines that are whole.

    A write is copied page by page: where a page ends, a reader sees a part of it, and a kill leaves it at that.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()
