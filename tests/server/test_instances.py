"""The menu that leads to other servers."""

from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.errors import ConfigError
from holdfast.server.settings import ServerSettings
from tests.server.hostile import HOSTILE
from tests.server.reading import read
from tests.support.web import PAGE, bearing, made_token, visit

OTHERS = {"staging": "https://jobs.staging.example/", "europe": "https://eu.example.org/jobs"}


def menu(text: str) -> list[tuple[str, str | None]]:
    """The addresses that the menu names, and which of them is here."""
    page = read(text)
    assert [fault for fault in page.faults if not fault.startswith("leads elsewhere")] == []  # which it does
    part = text.partition('<details class="who switch">')[2].partition("</details>")[0]
    return [(given["href"], given.get("aria-current")) for tag, given in read(part).tags if tag == "a"]


@pytest.mark.parametrize("own, names", [("production", OTHERS), ("europe", OTHERS), (None, OTHERS)])
async def test_a_menu_leads_to_other_servers(memory_app: Holdfast, own: str | None, names: dict[str, str]) -> None:
    async with visit(memory_app, ServerSettings(title=own, instances=names)) as web:
        web.headers.update(PAGE | bearing(await made_token(memory_app, "viewer")))
        text = (await web.get("/queues")).text
        others = [address for name, address in names.items() if name != own]
        assert menu(text) == [("/", "true"), *((address, None) for address in others)]
        assert (own or "this server") in text.partition("</summary>")[0]


async def test_strangers_do_not_learn_of_other_servers(memory_app: Holdfast) -> None:
    async with visit(memory_app, ServerSettings(title="production", instances=OTHERS)) as web:
        text = (await web.get("/login", headers=PAGE)).text
        assert "production" in text
        assert "staging" not in text


async def test_a_server_alone_has_no_menu(memory_app: Holdfast) -> None:
    async with visit(memory_app, ServerSettings(title="production"), is_open=True) as web:
        text = (await web.get("/queues", headers=PAGE)).text
        assert menu(text) == []
        assert '<span class="instance">production</span>' in text


async def test_names_are_shown_as_text(memory_app: Holdfast) -> None:
    names = {text[:20]: "https://jobs.staging.example/" for text in HOSTILE if 0 < len(text[:20].encode()) <= 60}
    names = {name: address for name, address in names.items() if "\x00" not in name}
    async with visit(memory_app, ServerSettings(instances=names), is_open=True) as web:
        assert len(menu((await web.get("/queues", headers=PAGE)).text)) == len(names) + 1


def test_a_file_says_them(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.yaml"
    text = "store: sqlite://\nserver:\n  instances:\n    staging: "
    file.write_text(f"{text}https://jobs.staging.example/\n", encoding="utf-8")
    assert dict(Holdfast.from_config(file).server_settings().instances) == {"staging": OTHERS["staging"]}
    file.write_text(f"{text}jobs.staging.example\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"server\.instances\.staging: expected an address such as https://"):
        Holdfast.from_config(file)
