"""The reference pages name the least role of an operation: what the table of permissions says."""

import re
from pathlib import Path

from holdfast.server.roles import Permission
from tests.server.permissions import PERMISSIONS, VERBS

PAGES = ("http.md", "http-jobs.md")
DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "reference"
_ROW = re.compile(r"^\| ([^|]+) \| `(viewer|operator|admin)` \|$", re.MULTILINE)
_PARAGRAPH = re.compile(r"^`(?:GET|POST|PUT|PATCH|DELETE) /.+?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"`([^`\n]+)`|\((viewer|operator|admin)\b")
_OPERATION = re.compile(r"(GET|POST|PUT|PATCH|DELETE)? ?([/…][^\s?]*)?")

Roles = dict[tuple[str, str], str]


def roles_in(paragraph: str) -> Roles:
    """Read operations and the role behind them: a method holds for the paths after it, and … is the last whole path."""
    found: Roles = {}
    methods, base, has_path = ["GET"], "", True
    pending: list[tuple[str, str]] = []
    for code, role in _WORD.findall(paragraph):
        operation = _OPERATION.fullmatch(code)
        if role:
            found |= dict.fromkeys(pending, role)
            pending = []
        elif operation is not None:
            if operation[1]:
                methods, has_path = [operation[1]] if has_path else [*methods, operation[1]], False
            if operation[2]:
                path, has_path = operation[2].replace("…", base), True
                base = base if operation[2].startswith("…") else path
                pending += [(method, path) for method in methods]
    return found


def test_roles_are_read_from_a_paragraph() -> None:
    said = "`GET /a`, `/a/{b}` (viewer) · `PUT` and `DELETE …/c` (admin; once) · `POST /d` for all, `x=1` (operator)."
    assert roles_in(said) == {
        ("GET", "/a"): "viewer",
        ("GET", "/a/{b}"): "viewer",
        ("PUT", "/a/{b}/c"): "admin",
        ("DELETE", "/a/{b}/c"): "admin",
        ("POST", "/d"): "operator",
    }


def test_the_reference_names_the_roles_of_the_table() -> None:
    said: Roles = {}
    for page in PAGES:
        for paragraph in _PARAGRAPH.findall((FOLDER / page).read_text(encoding="utf-8")):
            said |= roles_in(paragraph)
    lines = {key: PERMISSIONS.get((key[0], f"/api/v1{key[1]}")) or PERMISSIONS.get(key) for key in said}
    assert {key: None if line is None else line.role for key, line in lines.items()} == said
    assert len(said) >= 65


def test_each_thing_needs_the_role_of_the_table_of_verbs() -> None:
    assert {one.words: one.role.word for one in Permission} == VERBS


def test_the_documentation_has_the_table_of_verbs() -> None:
    said = _ROW.findall((DOCS / "operate" / "secure.md").read_text(encoding="utf-8"))
    assert said == list(VERBS.items())
