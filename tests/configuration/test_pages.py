"""What the pages say of the file is so."""

import re
from typing import Any

import pytest

from holdfast import Holdfast, ServerSettings
from holdfast.configuration.document import sections
from holdfast.configuration.forms import form_of
from holdfast.retry import Backoff
from tests.configuration.conftest import Write
from tests.support.doc_pages import DOCS, Block, blocks

PAGE = DOCS / "operate" / "configure.md"


@pytest.mark.parametrize("block", blocks(PAGE, "yaml"), ids=lambda block: str(block.line))
def test_files_on_the_page_have_no_errors(write: Write, block: Block) -> None:
    assert Holdfast(config=write(block.code)).config.url == "sqlite:///jobs.db"


def keys(hint: Any) -> set[str]:
    form = form_of(hint)
    if form.sort == "value":
        return set()
    inner = [] if form.of is None else [form.of]
    return {*form.keys, *(key for part in (*form.keys.values(), *inner) for key in keys(part))}


SECTIONS = sections(ServerSettings)
ELSEWHERE = {"worker", "webhooks"}  # their definitions are described on their own
RETRY = {*form_of(Backoff).keys, "completed", "completed_with_errors", "failed", "cancelled"}


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_is_described(section: str) -> None:
    page = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
    form = page.partition("\n## The file\n")[2].partition("\n## ")[0]
    found = re.search(rf"^\| `{section}` \| (.*) \|$", form, re.MULTILINE)
    assert found is not None
    wanted = set() if section in ELSEWHERE else keys(SECTIONS[section]) - RETRY - {"name"}
    assert wanted - set(re.findall(r"`([^`]+)`", found[1])) == set()
