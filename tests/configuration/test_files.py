"""Which file is read: YAML, TOML or pyproject.toml, named or found."""

from pathlib import Path

import pytest

from holdfast import ConfigError, Holdfast
from holdfast.configuration import files
from holdfast.configuration.report import Report
from holdfast.configuration.yaml_file import read_yaml
from tests.configuration.conftest import Write, errors_of

TOML = """
[{0}store]
url = "sqlite:///jobs.db"
[{0}queues.high]
workers = {{ min = 2, max = 9 }}
timeout = "none"
[{0}schedules.night]
cron = "0 3 * * *"
window = [02:00:00, "05:00"]
exclude = [2026-12-25]
"""


@pytest.mark.parametrize("name, prefix", [("holdfast.toml", ""), ("pyproject.toml", "tool.holdfast.")])
def test_toml(write: Write, name: str, prefix: str) -> None:
    write(TOML.format(prefix), name)
    app = Holdfast.from_config()
    assert (app.config.queues["high"].max_workers, app.config.queues["high"].timeout_ms) == (9, None)
    assert app.schedule_definitions["night"].times.hours.window == (120, 300)
    assert app.configuration is not None
    assert app.configuration.file.name == name


def test_the_nearest_file_is_found(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"there is no holdfast\.yaml"):
        Holdfast.from_config()
    file = write("store: sqlite:///jobs.db\n")
    write('[tool.holdfast]\napp = "shop:app"\n', "pyproject.toml")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n", encoding="utf-8")
    monkeypatch.chdir(inner)
    assert files.find() == file
    monkeypatch.setenv("HOLDFAST_CONFIG", "elsewhere.yaml")
    assert files.find() == Path("elsewhere.yaml")


def test_two_files_are_one_too_many(write: Write) -> None:
    write("store: sqlite:///jobs.db\n")
    write(TOML.format("tool.holdfast."), "pyproject.toml")
    with pytest.raises(ConfigError, match=r"expected one configuration in .* holdfast\.yaml and pyproject\.toml"):
        Holdfast.from_config()


def test_yaml_means_what_people_mean() -> None:
    report = Report("x")
    plain = "a: 16:00\nb: yes\nc: 2026-12-25\nd: 1_000\ne: 007\nf: 1.5\ng:\nh: 1e3\ni: true\n"
    read = read_yaml(f"{plain}j: &j {{k: 1}}\nl: {{<<: *j, m: 2}}", report)
    assert read == {
        "a": "16:00",
        "b": "yes",
        "c": "2026-12-25",
        "d": 1_000,
        "e": "007",
        "f": 1.5,
        "g": None,
        "h": 1_000.0,
        "i": True,
        "j": {"k": 1},
        "l": {"k": 1, "m": 2},
    }
    assert report.errors == []
    assert report.places["l", "m"] == "x:11:13"


def test_an_empty_file_says_nothing(write: Write) -> None:
    assert Holdfast("sqlite://", config=write("# nothing\n")).config.url == "sqlite://"
    assert [error.path for error in errors_of(write(""))] == ["store.url"]
