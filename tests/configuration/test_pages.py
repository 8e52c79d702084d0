"""What the pages say of the file is so."""

import re

import pytest

from holdfast import Holdfast
from holdfast.configuration import sections
from holdfast.configuration.shapes import Group, Many, Named, Shape, Tagged
from tests.configuration.conftest import Write
from tests.support.doc_pages import DOCS, Block, blocks

PAGE = DOCS / "operate" / "configure.md"


@pytest.mark.parametrize("block", blocks(PAGE, "yaml"), ids=lambda block: str(block.line))
def test_files_on_the_page_have_no_mistakes(write: Write, block: Block) -> None:
    assert Holdfast(config=write(block.code)).settings.url == "sqlite:///jobs.db"


def keys(shape: Shape) -> set[str]:
    if isinstance(shape, Group):
        return {*shape.fields, *(key for field in shape.fields.values() for key in keys(field))}
    if isinstance(shape, Named):
        return keys(shape.of) | set(shape.words)
    if isinstance(shape, Tagged):
        return {key for name, group in shape.types.items() for key in (name, *keys(group))}
    return keys(shape.of) if isinstance(shape, Many) else set()


@pytest.mark.parametrize("section", sections.SECTIONS)
def test_every_key_is_described(section: str) -> None:
    page = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
    form = page.partition("\n## The file\n")[2].partition("\n## ")[0]
    found = re.search(rf"^\| `{section}` \| (.*) \|$", form, re.MULTILINE)
    assert found is not None
    elsewhere = {"worker", "webhooks", "schedules"}  # their definitions are described on their own
    retry = set(sections.RETRY.fields) | {"completed", "completed_with_errors", "failed", "cancelled"}
    wanted = set() if section in elsewhere else keys(sections.SECTIONS[section]) - retry
    assert wanted - set(re.findall(r"`([^`]+)`", found[1])) == set()
