"""Which app: -A, --store, the environment, pyproject.toml; and what is said when there is none or it is broken."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Shop


@pytest.fixture
def ready(sqlite_shop: Shop) -> Shop:
    sqlite_shop.ok("migrate", "up")
    return sqlite_shop


def test_the_option_before_and_after_the_command(ready: Shop) -> None:
    assert ready("-A", "shop:app", "queues", "list", app=False).exit_code == 0
    assert ready("queues", "list", "-A", "shop:app", app=False).exit_code == 0
    assert ready("queues", "list", "--store", ready.url, app=False).exit_code == 0
    assert ready("--store", ready.url, "jobs", "list", app=False).exit_code == 0


def test_the_environment(ready: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_APP", "shop:app")
    assert ready("enqueue", "send_email", "to=a", app=False).exit_code == 0
    monkeypatch.setenv("HOLDFAST_STORE", ready.url)
    both = ready("jobs", "list", app=False)
    assert both.exit_code == 2
    assert "HOLDFAST_APP and HOLDFAST_STORE exclude each other" in both.stderr
    monkeypatch.setenv("HOLDFAST_APP", "")
    assert len(ready("jobs", "list", "-q", app=False).stdout.split()) == 1
    assert ready("jobs", "list", app=True).exit_code == 0, "the command line wins"


def test_pyproject_is_searched_upwards(ready: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.holdfast]\napp = "shop:app"\n', encoding="utf-8")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "x"\n', encoding="utf-8")
    monkeypatch.chdir(inner)
    assert ready("enqueue", "send_email", "to=a", app=False).exit_code == 0
    monkeypatch.setenv("HOLDFAST_APP", "other:app")
    assert ready("jobs", "list", app=False).exit_code == 2, "the environment wins"


@pytest.mark.parametrize(
    "text, code, said",
    [
        ("[tool.holdfast]\napp = 5\n", 2, 'expected app = "module:app"'),
        ("[tool.holdfast]\n", 2, 'expected app = "module:app"'),
        ("[tool.holdfast\n", 1, "cannot be read"),
    ],
)
def test_a_wrong_pyproject(ready: Shop, text: str, code: int, said: str) -> None:
    (ready.folder / "pyproject.toml").write_text(text, encoding="utf-8")
    result = ready("jobs", "list", app=False)
    assert result.exit_code == code
    assert said in result.stderr


def test_nothing_is_named(ready: Shop) -> None:
    result = ready("jobs", "list", app=False)
    assert result.exit_code == 2
    assert "no app was named; name the app with -A module:app" in result.stderr


def test_a_store_alone_has_no_tasks(ready: Shop) -> None:
    result = ready("enqueue", "send_email", "to=a", "--store", ready.url, app=False)
    assert result.exit_code == 2
    assert "needs the tasks of an app, and --store names a store alone" in result.stderr


@pytest.mark.parametrize(
    "args, said",
    [
        (["-A", "shop:app", "--store", "sqlite:///x.db"], "-A and --store exclude each other"),
        (["-A", "shop:app", "--schema", "other"], "--schema goes with --store"),
        (["--store", "mysql://root:secret@h/db"], "store URL: expected sqlite:///file.db"),
        (["--store", "postgresql://h/db", "--schema", "a'b"], "schema: expected 1 to 63 bytes"),
        (["-A", "shop"], "expected a form like module:app"),
        (["-A", "shop:"], "expected a form like module:app"),
        (["-A", "shop.py:app"], "there is no module shop.py"),
        (["-A", "./shop:app"], "expected a form like module:app"),
        (["-A", "missing:app"], "there is no module missing in "),
        (["-A", "shop:missing"], "shop was imported and has no missing"),
        (["-A", "shop:send_email"], "expected a Holdfast app there, got a FunctionTask"),
    ],
)
def test_a_wrong_spelling_is_refused_with_2(ready: Shop, args: list[str], said: str) -> None:
    result = ready("jobs", "list", *args, app=False)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    "source, said",
    [
        ("import surely_missing_library\n", "ModuleNotFoundError: No module named 'surely_missing_library'"),
        ("def f():\n    raise RuntimeError('postgresql://u:secret@h/db \\x1b[31m')\nf()\n", "RuntimeError"),
        ("def (\n", "SyntaxError"),
        ("raise SystemExit(0)\n", "SystemExit"),
    ],
)
def test_a_broken_module_shows_where(tmp_path: Path, sqlite_shop: Shop, source: str, said: str) -> None:
    (tmp_path / "broken.py").write_text(source, encoding="utf-8")
    result = sqlite_shop("jobs", "list", "-A", "broken:app", app=False)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: importing broken failed: ")
    assert said in result.stderr
    assert "broken.py" in result.stderr
    assert len(result.stderr.splitlines()) <= 6
    assert "secret" not in result.stderr
    assert "\x1b" not in result.stderr
    as_json = sqlite_shop("jobs", "list", "-A", "broken:app", "--json", app=False)
    assert json.loads(as_json.stderr)["error"]["exit_code"] == 1


def test_a_wrong_definition_is_one_sentence(tmp_path: Path, sqlite_shop: Shop) -> None:
    (tmp_path / "twice.py").write_text("from holdfast import Holdfast\napp = Holdfast('nonsense')\n", encoding="utf-8")
    result = sqlite_shop("jobs", "list", "-A", "twice:app", app=False)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: importing twice: store URL: expected ")
    assert result.stderr.count("\n") == 1


def test_a_store_in_memory_is_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "sqlite://")
    for args in (("jobs", "list"), ("enqueue", "send_email", "to=a"), ("migrate", "up")):
        result = shop(*args)
        assert result.exit_code == 1
        assert "in memory and ends with its process" in result.stderr
    assert shop("doctor").exit_code == 6


def test_an_attribute_of_an_object(ready: Shop) -> None:
    (ready.folder / "deep.py").write_text("import shop\nclass box:\n    app = shop.app\n", encoding="utf-8")
    assert ready("jobs", "list", "-A", "deep:box.app", app=False).exit_code == 0
