"""Configuration files that hypothesis writes: each is used or refused with its errors, and costs little."""

from pathlib import Path

import hypothesis
import pytest

from holdfast import Holdfast
from tests.server.test_cost_of_checks import cheap, texts
from tests.support.sizes import CHAOS, size

WORDS = "store: sqlite:// queues: limits: server: worker: name: mail workers: 3 sla: 30s rate: 10/s cron: budgets:"
FILES = {
    "holdfast.yaml": f"{WORDS} \n \n__ - - &a *a <<: {{ }} [ ] , | > # ! !!str ' \" ${{HOME}} ${{ ~ null 0x10 1e3 é \t",
    "holdfast.toml": '[queues.mail] [[limits]] name="a" workers=3 \n . = { } [ ] , # """ 1979-05-27 inf nan ${HOME} é',
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_used_or_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    fragments = FILES[name].replace("\n", "\\n")

    @hypothesis.settings(
        max_examples=size(60, 3_000),
        deadline=None,
        derandomize=not CHAOS,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(texts(fragments))
    def costs_little(text: str) -> None:
        file.write_text(text.replace("\\n", "\n").replace("__", "  "), encoding="utf-8", errors="replace")
        with cheap(text):
            Holdfast(config=file)

    costs_little()
