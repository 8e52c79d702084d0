from pathlib import Path

import pytest

from scripts import size_report


def function(lines: int, *, docstring_lines: int = 0, name: str = "long") -> str:
    """Write a function of so many lines, `def` included, and a docstring on top of them."""
    docstring = '    """One\n' + "    more\n" * (docstring_lines - 2) + '    """\n' if docstring_lines else ""
    return f"def {name}():\n{docstring}" + "    pass\n" * (lines - 1)


def plant(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_small_sources_pass_and_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = plant(tmp_path, "small.py", function(3))

    assert size_report.main([str(tmp_path)]) == 0

    out, err = capsys.readouterr()
    assert f"     3  {small}\n" in out
    assert f"     3  {small}:1 long\n" in out
    assert err == ""


@pytest.mark.parametrize("lines, code", [(600, 0), (601, 1)])
@pytest.mark.parametrize("name", ["deep/module.py", "deep/queries.sql"])
def test_a_file_may_have_600_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, lines: int, code: int
) -> None:
    path = plant(tmp_path, name, "\n" * lines)

    assert size_report.main([str(tmp_path)]) == code

    complaint = f"size report: {path} has 601 lines, the limit is 600: split it\n"
    assert capsys.readouterr().err == (complaint if code else "")


@pytest.mark.parametrize("lines, code", [(80, 0), (81, 1)])
def test_a_function_may_have_80_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: int, code: int
) -> None:
    path = plant(tmp_path, "module.py", function(lines))

    assert size_report.main([str(tmp_path)]) == code

    complaint = f"size report: {path}:1 long has 81 lines, the limit is 80: split it\n"
    assert capsys.readouterr().err == (complaint if code else "")


@pytest.mark.parametrize("lines, code", [(80, 0), (81, 1)])
def test_a_docstring_does_not_count(tmp_path: Path, lines: int, code: int) -> None:
    plant(tmp_path, "module.py", function(lines, docstring_lines=40))

    assert size_report.main([str(tmp_path)]) == code


@pytest.mark.parametrize(
    "opening, name",
    [
        ("class Outer:\n    async def inner(self):\n", "Outer.inner"),
        ("if True:\n    def inner(self):\n", "inner"),
    ],
)
def test_methods_and_conditional_functions_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], opening: str, name: str
) -> None:
    plant(tmp_path, "module.py", opening + "        pass\n" * 80)

    assert size_report.main([str(tmp_path)]) == 1
    assert f"module.py:2 {name} has 81 lines" in capsys.readouterr().err


def test_a_function_counts_for_the_one_around_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path, "module.py", "def outer():\n    def inner():\n" + "        pass\n" * 79)

    assert size_report.main([str(tmp_path)]) == 1

    out, err = capsys.readouterr()
    assert "module.py:1 outer has 81 lines" in err
    assert "inner" not in err
    assert "    80  " in out
    assert "module.py:2 outer.inner" in out


def test_the_ten_longest_are_shown_longest_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for lines in range(2, 14):
        plant(tmp_path, f"module_{lines}.py", function(lines))

    size_report.main([str(tmp_path)])

    files, functions = capsys.readouterr().out.split("Longest functions")
    assert [int(line.split()[0]) for line in files.splitlines()[1:]] == [*range(13, 3, -1)]
    assert [int(line.split()[0]) for line in functions.splitlines()[1:]] == [*range(13, 3, -1)]


def test_a_folder_without_sources_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert size_report.main([str(tmp_path / "missing")]) == 1
    assert "no .py or .sql file under" in capsys.readouterr().err
