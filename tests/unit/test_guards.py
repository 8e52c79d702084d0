"""The script that removes guards: what it finds, what it removes, and what it calls red."""

from pathlib import Path

import pytest

from scripts import guards
from scripts.guards import BROKEN, GREEN, RED, Line

SOURCE = """
def fenced(claim, held):
    if claim != held:  # guard: fence
        return "lost"
    elif claim is None:
        return None
    return "done"


def counted(number):
    total = 0
    total += (
        number
    )  # guard: sum
    return total  # guard: answer, without: return None
"""


def line(number: int, without: str | None = None, path: str = "src/some.py") -> Line:
    return Line(Path(path), number, without)


def rest(text: str, *lines: Line) -> list[str]:
    return guards.without_guards(lines[0].path, text, lines).splitlines()


def plant(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


# ---- finding ---------------------------------------------------------------------------------------------------------


def test_guards_are_found_by_their_comments(tmp_path: Path) -> None:
    plant(tmp_path, "src/some.py", SOURCE)
    plant(tmp_path, "src/deep/some.sql", "SELECT 1\nWHERE true  -- guard: fence\n")
    assert guards.find_guards(tmp_path) == {
        "answer": [line(15, "return None")],
        "fence": [line(2, path="src/deep/some.sql"), line(3)],
        "sum": [line(14)],
    }


def test_a_comment_on_a_line_of_its_own_is_of_the_next_line(tmp_path: Path) -> None:
    plant(tmp_path, "src/some.py", "if True:\n    # guard: one\n    x = 1\n# guard: two, without: x = 3\nx = 2\n")
    assert guards.find_guards(tmp_path) == {"one": [line(3)], "two": [line(5, "x = 3")]}


def test_a_name_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, "src/some.py", "x = 1  # guard: Some Name\n")
    with pytest.raises(guards.GuardMistake, match=r"src/some.py:1"):
        guards.find_guards(tmp_path)


def test_tests_are_found_by_their_markers(tmp_path: Path) -> None:
    text = """
import pytest
pytestmark = [pytest.mark.real_time, pytest.mark.guards("all")]

@pytest.mark.guards("one", "two")
async def test_a(): ...

class TestGroup:
    @pytest.mark.parametrize("x", [1])
    @pytest.mark.guards("one")
    def test_b(self, x): ...
"""
    plant(tmp_path, "tests/deep/test_some.py", text)
    file = "tests/deep/test_some.py"
    assert guards.find_tests(tmp_path) == {
        "all": [file],
        "one": [f"{file}::test_a", f"{file}::TestGroup::test_b"],
        "two": [f"{file}::test_a"],
    }


def test_a_guard_without_a_test_and_a_test_without_a_guard_are_named() -> None:
    found = guards.complaints({"held": [line(1)], "bare": [line(2)]}, {"held": ["t.py::a"], "gone": ["t.py::b"]})
    assert found == ["bare (src/some.py:2) has no test", "t.py::b names gone, which no source has"]
    assert guards.complaints({"held": [line(1)]}, {"held": ["t.py::a"]}, ["other"]) == ["there is no guard other"]


# ---- removing --------------------------------------------------------------------------------------------------------


def test_an_if_goes_with_its_block() -> None:
    assert rest(SOURCE, line(3))[:5] == ["", "def fenced(claim, held):", "    pass", '    return "done"', ""]


def test_a_statement_of_several_lines_goes_whole() -> None:
    assert rest(SOURCE, line(14))[10:13] == [
        "    total = 0",
        "    pass",
        "    return total  # guard: answer, without: return None",
    ]


def test_a_line_may_be_replaced() -> None:
    assert rest(SOURCE, line(15, "return None"))[-1] == "    return None"


def test_a_line_of_sql_is_deleted() -> None:
    assert rest("SELECT 1\nWHERE a\n  AND b\n", line(3, path="some.sql")) == ["SELECT 1", "WHERE a"]


@pytest.mark.parametrize("number", [2, 5])
def test_what_cannot_be_removed_is_refused(number: int) -> None:
    with pytest.raises(guards.GuardMistake, match=f"src/some.py:{number}"):
        rest(SOURCE, line(number))


def test_where_each_store_has_its_own_line_one_store_goes_at_a_time() -> None:
    one, two, both = (line(1, path=f"src/stores/{place}/x.sql") for place in ("sqlite", "postgres", "shared"))
    assert guards.variants([one, both]) == {"": [one, both]}
    assert guards.variants([one, two, both]) == {"postgres": [two, both], "sqlite": [one, both]}


# ---- judging ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code, report, colour",
    [
        (0, "<r><testcase/></r>", GREEN),
        (1, "<r><testcase name='a'/><testcase name='b'><failure message='AssertionError'/></testcase></r>", RED),
        (1, "<r><testcase name='b'><failure message='NameError: x'/></testcase></r>", BROKEN),
        (1, "<r><testcase name='b'><error message='failed on setup'/></testcase></r>", BROKEN),
        (1, "<r><testcase name='b'><error message='failed on teardown with: deadlock'/></testcase></r>", RED),
        (1, None, BROKEN),
        (2, "<r><testcase><error message='collection failure'/></testcase></r>", BROKEN),
        (5, "<r/>", BROKEN),
    ],
)
def test_only_a_test_that_failed_is_red(code: int, report: str | None, colour: str) -> None:
    assert guards.verdict(code, report, "")[0] == colour


def test_the_source_of_the_copy_is_what_every_process_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path, "pyproject.toml", '[tool.pytest.ini_options]\nmarkers = ["guards: names"]\n')
    plant(
        tmp_path,
        "src/holdfast.py",
        "def held():\n    it = 1\n    it = 2  # guard: held\n    print(it)\n",
    )
    test = """
import subprocess, sys
import pytest

@pytest.mark.guards("held")
def test_it():
    command = [sys.executable, "-c", "import holdfast; holdfast.held()"]
    assert subprocess.run(command, env={"PYTHONPATH": "/"}, capture_output=True, check=True).stdout == b"2\\n"
"""
    plant(tmp_path, "tests/test_it.py", test)
    monkeypatch.setattr(guards, "ROOT", tmp_path)
    assert guards.main([]) == 0
    out, err = capsys.readouterr()
    assert out.split()[:2] == ["held", RED]
    assert not err
