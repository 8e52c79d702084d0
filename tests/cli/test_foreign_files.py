"""Files of other users that lie where commands look: they are not used unless they were named."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import ConfigError, Holdfast
from tests.cli.conftest import Shop

STRANGER = 4_711
TRAP = "import pathlib\npathlib.Path('sprung').touch()\n"
GiveAway = Callable[[Path], None]


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> GiveAway:
    """Let a path belong to another user: root can, and other users take themselves for another one."""

    def give(path: Path) -> None:
        if os.getuid() == 0:
            os.chown(path, STRANGER, -1, follow_symlinks=False)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: STRANGER)

    return give


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder below one with an app that springs when it is imported."""
    folder = tmp_path / "theirs"
    (folder / "below").mkdir(parents=True)
    (folder / "trap.py").write_text(f"{TRAP}from holdfast import Holdfast\napp = Holdfast('sqlite:///jobs.db')\n")
    monkeypatch.chdir(folder / "below")
    return folder


def is_sprung(trap: Path) -> bool:
    return (trap / "below" / "sprung").exists()


@pytest.mark.guards("file-owner")
@pytest.mark.parametrize("name", ["holdfast.yaml", "holdfast.toml", "pyproject.toml", "only the app"])
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_a_file_of_another_user_is_not_used(
    sqlite_shop: Shop, trap: Path, give_away: GiveAway, name: str, whose: str
) -> None:
    url = "sqlite:///jobs.db"
    texts = {
        "holdfast.yaml": f"app: trap:app\nstore: {url}\n",
        "holdfast.toml": f'app = "trap:app"\nstore = "{url}"\n',
        "pyproject.toml": f'[tool.holdfast]\napp = "trap:app"\nstore = "{url}"\n',
        "only the app": '[tool.holdfast]\napp = "trap:app"\n',
    }
    file = trap / ("pyproject.toml" if name == "only the app" else name)
    file.write_text(texts[name], encoding="utf-8")
    give_away(file if whose == "file" else trap)
    result = sqlite_shop("jobs", "list", app=False)
    assert (result.exit_code, result.stdout) == (1, "")
    assert not is_sprung(trap)
    assert result.stderr.startswith(f"Error: {file} or its folder belongs to user ")
    assert result.stderr.count("\n") == 1
    assert "name it with HOLDFAST_CONFIG, or the app with -A" in result.stderr
    with pytest.raises(ConfigError, match="belongs to user"):
        Holdfast.from_config()


def test_a_link_of_another_user_is_not_followed(sqlite_shop: Shop, trap: Path, give_away: GiveAway) -> None:
    (trap / "mine.yaml").write_text("app: trap:app\n", encoding="utf-8")
    (trap / "holdfast.yaml").symlink_to(trap / "mine.yaml")
    give_away(trap / "holdfast.yaml")
    assert "belongs to user" in sqlite_shop("jobs", "list", app=False).stderr
    assert not is_sprung(trap)


def test_what_was_named_is_used(
    sqlite_shop: Shop, trap: Path, give_away: GiveAway, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trap / "holdfast.yaml").write_text("app: trap:app\nstore: sqlite:///jobs.db\n", encoding="utf-8")
    give_away(trap / "holdfast.yaml")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(trap / "holdfast.yaml"))
    assert "belongs to user" not in sqlite_shop("jobs", "list", app=False).stderr
    assert is_sprung(trap)


@pytest.mark.guards("foreign-folder")
def test_an_app_that_was_found_is_not_looked_for_in_a_folder_of_another_user(
    sqlite_shop: Shop, trap: Path, give_away: GiveAway
) -> None:
    """The file lies above, and belongs to this user, but the folder of the shell does not."""
    if os.getuid() != 0:
        pytest.skip("only root can give a single folder away")
    (trap / "holdfast.yaml").write_text("app: trap:app\n", encoding="utf-8")
    (trap / "trap.py").write_text("from holdfast import Holdfast\napp = Holdfast('sqlite:///jobs.db')\n")
    (trap / "below" / "trap.py").write_text(TRAP, encoding="utf-8")
    give_away(trap / "below")
    sqlite_shop("jobs", "list", app=False)
    assert not is_sprung(trap)


def test_a_pipe_by_the_name_of_a_file_is_not_waited_for(sqlite_shop: Shop, trap: Path) -> None:
    os.mkfifo(trap / "pyproject.toml")
    assert "no app was named" in sqlite_shop("jobs", "list", app=False).stderr
