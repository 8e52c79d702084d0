"""What browsers are sent beside pages: known files, small, and nothing that needs an exception in the policy."""

import gzip
import importlib.util
import re
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.server import application  # noqa: F401 - it imports the parts in their order
from holdfast.server.pages.files import marked
from tests.support.web import visit

ROOT = Path(__file__).parent.parent.parent
SERVER = ROOT / "src" / "holdfast" / "server"
STATIC = SERVER / "static"
TEMPLATES = sorted((SERVER / "pages" / "templates").glob("*.html"))
SENT = sorted(file for file in STATIC.iterdir() if file.suffix in {".css", ".js", ".svg"})
MOST = 80_000


def test_vendored_files_are_those_that_are_listed() -> None:
    spec = importlib.util.spec_from_file_location("vendor", ROOT / "scripts" / "vendor.py")
    assert spec is not None
    assert spec.loader is not None
    vendor = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vendor)
    assert vendor.wrong() == []
    licences = (STATIC / vendor.LICENSES).read_text()
    for entry in vendor.listed():
        assert f"{entry['name']} {entry['version']} ({entry['licence']})" in licences
        assert set(entry) >= {"source", "commit", "path", "sha256"}


def test_everything_that_is_sent_is_small() -> None:
    sizes = {file.name: len(gzip.compress(file.read_bytes(), 9)) for file in SENT}
    assert sum(sizes.values()) < MOST, sizes


FORBIDDEN = {
    "a script in the page": re.compile(r"<script(?![^>]*\bsrc=)", re.IGNORECASE),
    "a style in the page": re.compile(r"<style", re.IGNORECASE),
    "a style on a tag": re.compile(r"\sstyle\s*=", re.IGNORECASE),
    "a handler on a tag": re.compile(r"\son[a-z]+\s*=", re.IGNORECASE),
    "a handler of htmx": re.compile(r"hx-on", re.IGNORECASE),
    "a condition of htmx": re.compile(r"hx-trigger\s*=\s*(['\"])[^'\"]*\[", re.IGNORECASE),
    "a computed value of htmx": re.compile(r"hx-(vals|headers)\s*=\s*['\"]\s*(js|javascript):", re.IGNORECASE),
    "an address elsewhere": re.compile(r"(src|href|action|hx-[a-z]+)\s*=\s*['\"](https?:)?//", re.IGNORECASE),
}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda file: file.name)
def test_templates_need_no_exception(template: Path) -> None:
    written = template.read_text()
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", "x", written, flags=re.DOTALL)  # what Jinja reads is no markup
    assert "| safe" not in written
    assert [what for what, pattern in FORBIDDEN.items() if pattern.search(text)] == []


@pytest.mark.parametrize("file", [file for file in SENT if ".min." not in file.name], ids=lambda file: file.name)
def test_our_own_files_reach_nowhere_else(file: Path) -> None:
    text = file.read_text().replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"https?://|@import|\beval\(|new Function|innerHTML\s*=|document\.write", text) == []


async def test_files_go_by_marked_names_and_are_packed(memory_app: Holdfast) -> None:
    async with memory_app, visit(memory_app) as web:
        for name in ("app.css", "app.js", "htmx.min.js", "icon.svg"):
            answer = await web.get(f"/static/{marked(name)}")
            assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip")
            assert answer.content == (STATIC / name).read_bytes()
            assert "immutable" in answer.headers["cache-control"]
            plain = await web.get(f"/static/{marked(name)}", headers={"accept-encoding": "identity"})
            assert "content-encoding" not in plain.headers
            assert plain.content == answer.content
        for wrong in ("app.css", "vendor.json", "app.000000000000.css", "..%2fapplication.py"):
            assert (await web.get(f"/static/{wrong}")).status_code == 404
