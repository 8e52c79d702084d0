"""What stands at the foot of each page: a command that there is, and an address that answers."""

import html
import re
import shlex

import pytest
from click.testing import CliRunner

from holdfast import Holdfast
from holdfast.cli.main import standalone
from holdfast.server.pages.twins import twin
from tests.server.furnished import furnish, furnished_app
from tests.support.web import bearing, made_token, visit
from tests.support.workers import MakeApp


async def test_each_page_names_what_shows_the_same(make_sqlite_memory: MakeApp) -> None:
    async with furnished_app(make_sqlite_memory) as app:
        await furnish(app)
        commands = await _footers(app)
    assert len(commands) > 12
    for command in commands:
        words = shlex.split(command)[1:]
        result = CliRunner().invoke(standalone, [*words[:2], "--help"], prog_name="holdfast")
        assert result.exit_code == 0, command


async def _footers(app: Holdfast) -> list[str]:
    """Go from page to page, ask for the address that each names, and collect the commands."""
    commands = []
    async with visit(app) as web:
        web.headers.update(bearing(await made_token(app)))
        (group,) = (await app.dead_letters.list(queue="high")).groups
        nav = (await web.get("/")).text.split("<nav", 1)[1].split("</nav>")[0]
        tabs = [f"/system/{name}" for name in ("tables", "webhooks", "settings", "audit", "tokens")]
        more = ["/queues/high", "/schedules/nightly", "/budgets/ai", "/escalations/1", f"/dead-letters/{group.id}"]
        for address in (*re.findall(r'href="([^"]+)"', nav), *tabs, *more):
            foot = (await web.get(address)).text.split("<footer", 1)[1].split("</footer>")[0]
            commands += [html.unescape(text) for text in re.findall(r"<code>(.+?)</code>", foot)]
            data = re.findall(r'href="([^"]+)">JSON', foot)
            assert len(data) == (address != "/jobs"), address
            for link in data:
                answer = await web.get(html.unescape(link))
                assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), link
    return commands


@pytest.mark.parametrize("path", ["/jobs", "/dead-letters/purge", "/login", "/workers/7", "/queues/high/pause"])
def test_what_only_asks_has_none(path: str) -> None:
    assert twin(path).path is None
