"""The letters of a filter, each with whether it was in quotes: how terms are cut apart."""

from collections.abc import Sequence

from holdfast.errors import WrongTerm

LONGEST = 2_000
MOST_TERMS = 50

Letter = tuple[str, bool]
"""One letter of a term, and whether quotes were around it."""


def cut(text: str, errors: list[WrongTerm]) -> list[list[Letter]]:
    """Cut a filter at its spaces, those within quotes apart."""
    if len(text) > LONGEST:
        errors.append(WrongTerm("", f"expected at most {LONGEST:,} letters, got {len(text):,}"))
        return []
    found: list[list[Letter]] = []
    term: list[Letter] | None = None
    is_quoted, is_escaped = False, False
    for position, letter in enumerate(text):
        if not is_quoted and letter.isspace():
            term = None
            continue
        if term is None:
            term = []
            found.append(term)
        following = text[position + 1 : position + 2]
        if is_quoted and letter == "\\" and not is_escaped and following in {'"', "\\"}:
            is_escaped = True
        elif letter == '"' and not is_escaped:
            is_quoted = not is_quoted
            term.append(("", True))  # an empty text in quotes is a value too
        else:
            term.append((letter, is_quoted))
            is_escaped = False
    if is_quoted:
        errors.append(WrongTerm("", 'expected a " at the end of what is in quotes, got none'))
    if len(found) > MOST_TERMS:
        errors.append(WrongTerm("", f"expected at most {MOST_TERMS} terms, got {len(found)}"))
        return []
    return found


def joined(written: Sequence[Letter]) -> str:
    """Give the letters as text."""
    return "".join(letter for letter, _ in written)


def parted(written: list[Letter], mark: str) -> tuple[list[Letter], list[Letter] | None]:
    """Part a term at the first mark outside quotes."""
    for position, letter in enumerate(written):
        if letter == (mark, False):
            return written[:position], written[position + 1 :]
    return written, None


def split(written: list[Letter], mark: str) -> list[list[Letter]]:
    """Cut a term at every mark outside quotes."""
    parts: list[list[Letter]] = [[]]
    for letter in written:
        if letter == (mark, False):
            parts.append([])
        else:
            parts[-1].append(letter)
    return parts
