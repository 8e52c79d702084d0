"""Configurations written into a folder of their own, and nothing of them in the environment."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Holdfast, InvalidConfig
from holdfast.errors import WrongSetting

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("HOLDFAST_"):
            monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "holdfast.yaml") -> Path:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return file

    return write


def errors_of(file: Path) -> tuple[WrongSetting, ...]:
    with pytest.raises(InvalidConfig) as caught:
        Holdfast(config=file)
    return caught.value.errors
