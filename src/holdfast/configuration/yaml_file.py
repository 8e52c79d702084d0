"""Reading YAML: as YAML 1.2 means it, with the place of every value, and without a key twice."""

import re
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from holdfast.configuration.environment import WRONG
from holdfast.configuration.report import DEEPEST, LONGEST, TOO_DEEP, Path, Report

_MOST_VALUES = 50_000
_MERGE = "tag:yaml.org,2002:merge"
_WORDS = {
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "tag:yaml.org,2002:int": (r"[-+]?(?:0|[1-9][0-9_]*)", list("-+0123456789")),
    "tag:yaml.org,2002:float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?",
        list("-+.0123456789"),
    ),
    _MERGE: (r"<<", ["<"]),
}

_TOO_MANY = f"expected at most {_MOST_VALUES:,} values, counted at each alias once more"
_KNOWN = {*_WORDS, *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq"))}


class _Excess(Exception):
    """The document is larger than any configuration."""


class _Loader(yaml.SafeLoader):
    """Takes 16:00 for a text and not for 960, and `yes` for a text and not for true; reads no deeper than it has to."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as the library has it

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 - the library's own name
        """Scan `[` or `{`: what it costs grows with the square of the depth."""
        if self.flow_level > DEEPEST:
            raise _Excess(TOO_DEEP)
        super().fetch_flow_collection_start(TokenClass)

    def add_indent(self, column: int) -> bool:
        """Scan the begin of a block."""
        if len(self.indents) > DEEPEST:
            raise _Excess(TOO_DEEP)
        return bool(super().add_indent(column))


for _tag, (_pattern, _first) in _WORDS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern})$"), _first)


def read_yaml(content: str, report: Report) -> dict[str, Any]:
    """Read a document; every value's line and column go into the report."""
    if len(content) > LONGEST:
        report.add((), f"expected at most {LONGEST:,} characters, got {len(content):,}")
        return {}
    try:
        loader = _Loader(content)
    except yaml.YAMLError as error:  # a character that YAML does not allow
        report.add((), f"expected YAML: {str(error).splitlines()[0]}")
        return {}
    try:
        node = loader.get_single_node()
        if node is None:
            return {}
        value = _Reader(loader, report).value(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        report.places[()] = report.source if mark is None else _place(report, mark)
        report.add((), f"expected YAML: {error.problem or error.context}")
        return {}
    except _Excess as error:
        report.add((), str(error))
        return {}
    except RecursionError:
        report.add((), TOO_DEEP)
        return {}
    finally:
        loader.dispose()
    if not isinstance(value, dict):
        report.add((), f"expected a mapping of sections, got a {type(value).__name__}")
        return {}
    return value


class _Reader:
    """Turns nodes into values, and takes note of their places."""

    def __init__(self, loader: _Loader, report: Report) -> None:
        self._loader = loader
        self._report = report
        self._above: list[Node] = []
        self._values = 0

    def value(self, node: Node, path: Path) -> Any:
        """Read one node."""
        self._count(1)
        if path:
            self._report.places.setdefault(path, _place(self._report, node.start_mark))
        if node in self._above:
            self._report.add(path, "expected a value, got an alias of what surrounds it")
            return WRONG
        if node.tag not in _KNOWN:
            self._report.add(path, f"expected a plain value, got the tag {node.tag}")
            return WRONG
        if len(self._above) == DEEPEST:
            raise _Excess(TOO_DEEP)
        self._above.append(node)
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            if isinstance(node, SequenceNode):
                return [self.value(inner, (*path, str(at))) for at, inner in enumerate(node.value)]
            return self._loader.construct_object(node)
        except ValueError:  # Python reads no number of thousands of digits
            self._report.add(path, "expected a shorter number")
            return WRONG
        finally:
            self._above.pop()

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if key.tag != _MERGE and name in seen:
                self._report.places[*path, name] = _place(self._report, key.start_mark)
                self._report.add((*path, name), f"the key stands here twice, first in line {seen[name]}")
            seen.setdefault(name, line)
        self._count_merged(node)
        self._loader.flatten_mapping(node)
        values: dict[str, Any] = {}
        for key, inner in node.value:
            name = str(key.value)
            self._report.places[*path, name] = _place(self._report, key.start_mark)
            values[name] = self.value(inner, (*path, name))
        return values

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > _MOST_VALUES:  # guard: yaml-values
            raise _Excess(_TOO_MANY)

    def _count_merged(self, node: MappingNode) -> None:
        """Count what `<<` puts into a mapping before it is put there: mappings of mappings grow without bounds."""
        for key, inner in node.value:
            if key.tag == _MERGE:
                for merged in inner.value if isinstance(inner, SequenceNode) else [inner]:
                    self._count(1 + len(merged.value))
                    if isinstance(merged, MappingNode):
                        self._count_merged(merged)


def _place(report: Report, mark: Any) -> str:
    return f"{report.source}:{mark.line + 1}:{mark.column + 1}"
