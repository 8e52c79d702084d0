"""Finding statements that count jobs without an end, whatever store they were written for."""

import re
from collections.abc import Iterator
from functools import cache

from holdfast.stores.migrate import load_functions

JOBS = frozenset({"jobs", "history", "live_jobs", "finished_jobs"})
_SKIPPED = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_TOKEN = re.compile(r"[\w.\"]+|[(),;]")
_AFTER_FROM = frozenset({"where", "group", "order", "limit", "window", "having", "returning"})
_BETWEEN = frozenset({"union", "except", "intersect"})
_FUNCTION = re.compile(r"\.(\w+)\(")

Tree = list["str | Tree"]


def unbounded(sql: str) -> bool:
    """Whether a statement, or a function that it calls, counts jobs with no LIMIT between the count and the table."""
    called = [_bodies()[name] for name in _FUNCTION.findall(sql) if name in _bodies()]
    return any(_is_unbounded(statement) for text in (sql, *called) for statement in _statements(text))


@cache
def _bodies() -> dict[str, str]:
    return {function.name: function.sql for function in load_functions("holdfast.stores.postgres")}


def _statements(sql: str) -> Iterator[Tree]:
    tokens = iter(_TOKEN.findall(_SKIPPED.sub("?", sql).replace("$$", ";")))
    tree = _tree(tokens)
    while tree:
        end = tree.index(";") if ";" in tree else len(tree)
        yield tree[:end]
        tree = tree[end + 1 :]


def _tree(tokens: Iterator[str]) -> Tree:
    """Put what stands in parentheses into a list of its own."""
    found: Tree = []
    for token in tokens:
        if token == ")":
            break
        found.append(_tree(tokens) if token == "(" else token.lower())
    return found


def _is_unbounded(tree: Tree) -> bool:
    named = {
        str(word): inner
        for word, follows, inner in zip(tree, tree[1:], [*tree[2:], ""], strict=False)
        if isinstance(inner, list) and (follows == "as" or isinstance(follows, list))
    }
    named |= {
        str(word): inner
        for word, _, _, inner in zip(tree, tree[1:], tree[2:], tree[3:], strict=False)
        if isinstance(inner, list)
    }
    return _counts(tree, named)


def _counts(tree: Tree, named: dict[str, Tree]) -> bool:
    for part in _parts(tree):
        if "count" in part and any(_is_endless(source, named) for source in _sources(part)):
            return True
    return any(_counts(inner, named) for inner in tree if isinstance(inner, list))


def _parts(tree: Tree) -> Iterator[Tree]:
    part: Tree = []
    for token in tree:
        if isinstance(token, str) and token in _BETWEEN:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _sources(part: Tree) -> Iterator["str | Tree"]:
    """Give what a SELECT reads."""
    is_source = False
    for token in part:
        if isinstance(token, str) and token in {"from", "join"}:
            is_source = True
        elif isinstance(token, str) and token in _AFTER_FROM:
            is_source = False
        elif is_source:
            yield token


def _is_endless(source: "str | Tree", named: dict[str, Tree]) -> bool:
    if isinstance(source, list):
        return any(
            "limit" not in part and any(_is_endless(inner, named) for inner in _sources(part))
            for part in _parts(source)
        )
    if source in named:
        rest = {name: tree for name, tree in named.items() if name != source}
        return _is_endless(named[source], rest)
    return source.rpartition(".")[2].strip('"').removeprefix("holdfast_") in JOBS
