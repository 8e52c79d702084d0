"""Reading YAML: as YAML 1.2 means it, with the place of every value, and without a key twice."""

import re
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from holdfast.configuration.environment import WRONG
from holdfast.configuration.mistakes import Path, Report

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

_KNOWN = {*_WORDS, *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq"))}


class _Loader(yaml.SafeLoader):
    """Takes 16:00 for a text and not for 960, and `yes` for a text and not for true."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as the library has it


for _tag, (_pattern, _first) in _WORDS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern})$"), _first)


def read_yaml(content: str, report: Report) -> dict[str, Any]:
    """Read a document; every value's line and column go into the report."""
    loader = _Loader(content)
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
    except yaml.YAMLError as error:  # a character that YAML does not allow
        report.add((), f"expected YAML: {str(error).splitlines()[0]}")
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

    def value(self, node: Node, path: Path) -> Any:
        """Read one node."""
        if path:
            self._report.places.setdefault(path, _place(self._report, node.start_mark))
        if node in self._above:
            self._report.add(path, "expected a value, got an alias of what surrounds it")
            return WRONG
        if node.tag not in _KNOWN:
            self._report.add(path, f"expected a plain value, got the tag {node.tag}")
            return WRONG
        self._above.append(node)
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            if isinstance(node, SequenceNode):
                return [self.value(inner, (*path, str(at))) for at, inner in enumerate(node.value)]
            return self._loader.construct_object(node)
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
        self._loader.flatten_mapping(node)
        values: dict[str, Any] = {}
        for key, inner in node.value:
            name = str(key.value)
            self._report.places[*path, name] = _place(self._report, key.start_mark)
            values[name] = self.value(inner, (*path, name))
        return values


def _place(report: Report, mark: Any) -> str:
    return f"{report.source}:{mark.line + 1}:{mark.column + 1}"
