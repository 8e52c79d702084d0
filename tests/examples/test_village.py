"""The village of the fourth seed: five queue families and fourteen kinds, from its file, on both stores."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import debian
from tests.support.doc_pages import ROOT

VILLAGE = ROOT / "examples" / "village"
FAMILIES = {
    "high": ["message_relay", "stock_refresh"],
    "default": ["inbound_email", "listing_expiration", "rank_recalculation", "rss_feed_refresh", "weather_refresh"],
    "screenshot": ["screenshot_capture"],
    "low": ["click_rollup", "link_health_check", "sitemap_generation", "social_refresh"],
    "bulk": ["ai_tagging", "image_processing"],
}
LONGEST_HANDLER = 20


@pytest.mark.xdist_group("chromium")
@pytest.mark.parametrize(
    "store, command",
    [("sqlite", ["-m", "examples.village.run"]), ("postgres", [str(VILLAGE / "run.py")])],
    ids=["sqlite", "postgres"],
)
def test_each_kind_does_its_work(
    store: str, command: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    debian.chromium()
    environment = os.environ | {"VILLAGE_STORE": f"sqlite:///{tmp_path / 'jobs.db'}"}
    if store == "postgres":
        names = {"VILLAGE_STORE": "dsn", "VILLAGE_SCHEMA": "schema"}
        environment |= {variable: request.getfixturevalue(fixture) for variable, fixture in names.items()}
    environment |= {"VILLAGE_DATA": str(tmp_path / "data"), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT if "-m" in command else tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split(maxsplit=3) for line in done.stdout.splitlines()]
    found: dict[str, list[str]] = {}
    for queue, kind, state, *_ in rows:
        assert state == "completed", done.stdout
        found.setdefault(queue, []).append(kind)
    assert {queue: sorted(kinds) for queue, kinds in found.items()} == FAMILIES
    data = tmp_path / "data"
    assert (data / "screenshots" / "market.png").read_bytes().startswith(b"\x89PNG")
    assert (data / "expired" / "anvil.json").exists()
    assert "curious@example.org" not in (data / "outbox" / "cart.eml").read_text()
    assert (data / "clicks.json").read_text() == '{"bakery": 2}'


def test_handlers_are_short() -> None:
    tree = ast.parse((VILLAGE / "tasks.py").read_text())
    handlers = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list
    ]
    assert sorted(node.name for node in handlers) == sorted(kind for kinds in FAMILIES.values() for kind in kinds)
    for node in handlers:
        assert node.end_lineno is not None
        assert node.end_lineno - node.lineno + 1 <= LONGEST_HANDLER, node.name
