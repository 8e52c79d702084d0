"""What a page is made of, so that a text which became markup is found."""

from collections import Counter

from tests.server.hostile import HOSTILE
from tests.server.reading import read


def shape(html: str) -> Counter[tuple[str, tuple[str, ...]]]:
    """Count the tags of a page by their names and attributes."""
    return Counter((tag, tuple(sorted(given))) for tag, given in read(html).tags)


def raw(html: str) -> list[str]:
    """Which of the hostile texts stand in a page as they are, though they hold what a browser acts on."""
    return [text for text in HOSTILE if any(mark in text for mark in "<>\"'") and text in html]
