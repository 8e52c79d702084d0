"""What pages and messages tell readers to type exists: calls of an app, and the package to install."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import get_type_hints

from holdfast import Holdfast
from holdfast.client.protocol import Client
from holdfast.tasks.registry import Registry
from tests.support.doc_pages import PAGES, ROOT, name

MARKED = re.compile(r"`([^`\n]+)`")
INSTALL = re.compile(r"install[^\n]{0,40}?['\" ]holdfast(?!-jobs)\b(?=[\[\s'\"`]|$)")


def calls(text: str) -> Iterator[ast.Call]:
    """Find the calls of an app in what a page marks as code."""
    for marked in MARKED.findall(text):
        try:
            tree = ast.parse(marked)
        except SyntaxError:  # a command, or a part of a call
            continue
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="app"))):
                    yield node
                case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="app")))):
                    yield node


def owner_of(function: ast.Attribute) -> type | None:
    """Find the class that has the verb: that of the app, or the namespace that one of its properties gives."""
    if isinstance(function.value, ast.Name):
        return Holdfast
    assert isinstance(function.value, ast.Attribute)
    if function.value.attr == "tasks":  # an attribute that the constructor sets
        return Registry
    name = function.value.attr
    if not isinstance(inspect.getattr_static(Holdfast, name, None), property):
        return None
    if hasattr(Client, name):  # a namespace: its type is imported for type checkers only
        module = import_module(f"holdfast.client.{name}")
        found: type = getattr(module, inspect.get_annotations(getattr(Client, name).fget)["return"])
    else:
        found = get_type_hints(inspect.getattr_static(Holdfast, name).fget)["return"]
    return found


def mistake(call: ast.Call) -> str | None:
    """Say what of a call does not exist, if anything."""
    assert isinstance(call.func, ast.Attribute)
    owner = owner_of(call.func)
    verb = None if owner is None else getattr(owner, call.func.attr, None)
    if verb is None:
        return f"no {ast.unparse(call.func)}"
    given = inspect.signature(verb).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in given):
        return None
    unknown = {keyword.arg for keyword in call.keywords} - {one.name for one in given}
    return f"{ast.unparse(call.func)} takes no {unknown}" if unknown else None


def test_every_call_of_an_app_that_a_page_names_exists() -> None:
    named = [(name(page), call) for page in PAGES for call in calls(page.read_text(encoding="utf-8"))]
    assert len(named) > 20
    mistakes = [(page, ast.unparse(call), mistake(call)) for page, call in named]
    assert [told for told in mistakes if told[-1] is not None] == []


def test_readers_are_told_to_install_the_package_of_this_project() -> None:
    sources = [*PAGES, *sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "examples").rglob("*.py"))]
    sources += [ROOT / "Dockerfile", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml"]
    wrong = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if INSTALL.search(line) or "holdfast[" in line
    ]
    assert wrong == []
