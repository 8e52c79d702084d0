"""Removes the named guards of the source one by one in a copy of the tree, and demands that their tests turn red.

A guard is marked by a comment at the end of its line, `# guard: finish-fence` in Python and `-- guard: finish-fence` in
SQL; a test names what it holds by `@pytest.mark.guards("finish-fence")`. An SQL line is deleted. In Python the simple
statement, or the `if` block that begins on the line, becomes `pass`. `guard: NAME, without: TEXT` replaces the line by
TEXT instead. A comment that does not fit at the end of its line stands alone on the line before. Lines of the same name
are removed together, but those of one store without those of the other.

Red means that a test failed. A test that cannot be collected, a fixture that breaks and a statement that the database
cannot read show nothing: such a removal is called broken, and the guard needs another `without`.
"""

import argparse
import ast
import compileall
import itertools
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
PATIENCE_S = 600.0
_COMMENT = re.compile(r"(?:#|--) guard: (?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)(?:, without: (?P<without>.+))?$")
_ANY_COMMENT = re.compile(r"(?:#|--) guard:")
_LEFT_OUT = (".git", ".venv", "__pycache__", "_build", ".*_cache", ".hypothesis", ".bench", "dist", "build")
_STORES = ("sqlite", "postgres")
_UNREADABLE = re.compile(r"SyntaxError|syntax error|IndentationError|NameError|UndefinedColumn|no such column")

RED, GREEN, BROKEN, STUCK = "red", "GREEN", "BROKEN", "STUCK"


class GuardMistake(Exception):
    """A guard that cannot be removed as it is written."""


class Line(NamedTuple):
    """One line of a guard."""

    path: Path  # below the root
    number: int
    without: str | None

    @property
    def store(self) -> str | None:
        """The store that the line belongs to, if it is one store's own."""
        parts = self.path.parts
        return next((store for store in _STORES if ("stores", store) in itertools.pairwise(parts)), None)

    def __str__(self) -> str:
        return f"{self.path}:{self.number}"


class Verdict(NamedTuple):
    """What the tests said about the tree without a guard."""

    colour: str
    seconds: float
    words: str  # the first test that failed, or what is wrong


# ---- what is there ---------------------------------------------------------------------------------------------------


def find_guards(root: Path) -> dict[str, list[Line]]:
    """Find the guards by their comments."""
    guards: dict[str, list[Line]] = defaultdict(list)
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".py", ".sql"}:
            continue
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := _COMMENT.search(text):
                guarded = number + 1 if text[: match.start()].isspace() or not match.start() else number
                guards[match["name"]].append(Line(path.relative_to(root), guarded, match["without"]))
            elif _ANY_COMMENT.search(text):
                message = f"{path.relative_to(root)}:{number}: expected `guard: NAME`, got {text.strip()}"
                raise GuardMistake(message)
    return dict(sorted(guards.items()))


def find_tests(root: Path) -> dict[str, list[str]]:
    """Find the tests by the guards that they name."""
    tests: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.guards" in text:
            for name, test in _named(ast.parse(text), str(path.relative_to(root))):
                tests[name].append(test)
    return dict(tests)


def _named(node: ast.Module | ast.ClassDef, place: str) -> Iterator[tuple[str, str]]:
    for part in node.body:
        if isinstance(part, ast.Assign) and any(
            isinstance(to, ast.Name) and to.id == "pytestmark" for to in part.targets
        ):
            yield from ((name, place) for name in _names_in(part.value))
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own = f"{place}::{part.name}"
            yield from ((name, own) for decorator in part.decorator_list for name in _names_in(decorator))
            if isinstance(part, ast.ClassDef):
                yield from _named(part, own)


def _names_in(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "guards":
            yield from (str(ast.literal_eval(argument)) for argument in part.args)


# ---- removing one ----------------------------------------------------------------------------------------------------


def variants(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Tell which lines are removed together: where each store has its own, the lines of one store at a time."""
    stores = sorted({line.store for line in lines if line.store is not None})
    if len(stores) < len(_STORES):
        return {"": list(lines)}
    return {store: [line for line in lines if line.store in {store, None}] for store in stores}


def without_guards(path: Path, text: str, lines: Iterable[Line]) -> str:
    """Give the text of a file without some of its guards."""
    rest = text.splitlines(keepends=True)
    for line in sorted(lines, key=lambda line: -line.number):
        old = rest[line.number - 1]
        indentation = old[: len(old) - len(old.lstrip())]
        if line.without is not None:
            rest[line.number - 1] = f"{indentation}{line.without}\n"
        elif path.suffix == ".sql":
            del rest[line.number - 1]
        else:
            first, last = _statement(line, text)
            indentation = rest[first - 1][: len(rest[first - 1]) - len(rest[first - 1].lstrip())]
            rest[first - 1 : last] = [f"{indentation}pass\n"]
    return "".join(rest)


def _statement(line: Line, text: str) -> tuple[int, int]:
    """Find the first and the last line of the statement that a comment marks."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.stmt):
            continue
        last = node.end_lineno or node.lineno
        if hasattr(node, "body"):
            is_meant = isinstance(node, ast.If) and node.lineno == line.number
            is_whole = not text.splitlines()[node.lineno - 1].lstrip().startswith("elif")
        else:
            is_meant, is_whole = node.lineno <= line.number <= last, True
        if is_meant and is_whole:
            return node.lineno, last
    message = f"{line}: neither a simple statement nor an `if` ends or begins here; say `without: TEXT`"
    raise GuardMistake(message)


# ---- the copy --------------------------------------------------------------------------------------------------------


class Copy:
    """A copy of the tree, with an environment in which its own source is the one that every process imports."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = folder / root.name
        shutil.copytree(root, self.root, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
        # The file is read again whenever its text has changed, also within the same second.
        mode = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(self.root / "src", quiet=2, workers=os.cpu_count() or 1, invalidation_mode=mode)
        self._environment = self.root / ".venv"
        self._make_environment()

    def _make_environment(self) -> None:
        """Make an environment with the packages of this one; variables would not do, since some tests set them."""
        venv.create(self._environment, with_pip=False, symlinks=True)
        here = Path(sys.executable).parent
        (packages,) = self._environment.glob("lib/python*/site-packages")
        others = [path for path in sys.path if Path(path).name == "site-packages"]
        lines = [str(self.root / "src"), *(f"import site; site.addsitedir({path!r})" for path in others)]
        (packages / "copy.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for program in here.iterdir():
            copied = self._environment / "bin" / program.name
            if program.is_file() and not copied.exists():
                content = program.read_bytes()
                if content.startswith(b"#!"):
                    content = content.replace(str(here).encode(), str(copied.parent).encode())
                copied.write_bytes(content)
                copied.chmod(0o755)

    def judge(self, lines: Sequence[Line], tests: Sequence[str]) -> Verdict:
        """Run tests without some guards, which are put back afterwards."""
        began = time.monotonic()
        texts = {path: (self.root / path).read_text(encoding="utf-8") for path in {line.path for line in lines}}
        try:
            for path, text in texts.items():
                rest = without_guards(path, text, (line for line in lines if line.path == path))
                (self.root / path).write_text(rest, encoding="utf-8")
            colour, words = self._run(tests)
        except GuardMistake as mistake:
            colour, words = BROKEN, str(mistake)
        finally:
            for path, text in texts.items():
                (self.root / path).write_text(text, encoding="utf-8")
        return Verdict(colour, time.monotonic() - began, words)

    def _run(self, tests: Sequence[str]) -> tuple[str, str]:
        report = self.root / "guards.xml"
        report.unlink(missing_ok=True)
        python = self._environment / "bin" / "python"
        # Folders of its own: other runs of pytest may be making and removing theirs at this moment.
        folders = ("--basetemp", str(self.root.parent / "tmp"), "--junitxml", str(report))
        options = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", *folders)
        # A guard is held by what every commit runs, also where `make chaos` asks.
        env = {name: value for name, value in os.environ.items() if name not in {"HOLDFAST_CHAOS", "PYTHONPATH"}}
        try:
            done = subprocess.run(  # noqa: S603 - our own tests
                [python, "-m", "pytest", *options, *tests],
                cwd=self.root,
                env=env | {"VIRTUAL_ENV": str(self._environment)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return STUCK, f"no answer within {PATIENCE_S:g} s"
        return verdict(done.returncode, report.read_text(encoding="utf-8") if report.exists() else None, done.stdout)


def verdict(code: int, report: str | None, out: str) -> tuple[str, str]:
    """Tell a test that failed from everything else that can go wrong."""
    last = next((line for line in reversed(out.splitlines()) if line.strip()), "")
    if code == 0:
        return GREEN, last
    if code != 1 or report is None:
        return BROKEN, f"pytest ended with {code}: {last}"
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        test = f"{case.get('classname')}.{case.get('name')}"
        error, failure = case.find("error"), case.find("failure")
        if error is not None:  # a fixture that looks after the test, and found something, has failed as a test does
            is_found = (error.get("message") or "").startswith("failed on teardown")
            return RED if is_found else BROKEN, f"{test}: {error.get('message')}"
        if failure is not None:
            words = f"{test}: {failure.get('message')}"
            return BROKEN if _UNREADABLE.search(words) else RED, words
    return BROKEN, last


# ---- the whole -------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the guards; the answer is the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="judge these guards only")
    parser.add_argument("--list", action="store_true", help="list the guards and their tests, and run nothing")
    parser.add_argument("--verbose", action="store_true", help="print by which test a removal was found out, and how")
    parser.add_argument("--check", action="store_true", help="run the tests with their guards in place first")
    chosen = parser.parse_args(arguments)
    try:
        guards, tests = find_guards(ROOT), find_tests(ROOT)
    except GuardMistake as mistake:
        print(mistake, file=sys.stderr)
        return 1
    mistakes = complaints(guards, tests, chosen.names)
    names = [name for name in guards if not chosen.names or name in chosen.names]
    if chosen.list:
        for name in names:
            print(name, *(f"    {line}" for line in guards[name]), sep="\n")
            print(*(f"    held by {test}" for test in tests.get(name, ())), sep="\n")
    else:
        wanted = {name: guards[name] for name in names if name in tests}
        mistakes += _judge_all(wanted, tests, is_checked=chosen.check, is_verbose=chosen.verbose)
    for complaint in mistakes:
        print(f"guards: {complaint}", file=sys.stderr)
    return 1 if mistakes else 0


def complaints(
    guards: Mapping[str, Sequence[Line]], tests: Mapping[str, Sequence[str]], names: Sequence[str] = ()
) -> list[str]:
    """Name the guards that no test holds, and those that do not exist."""
    found = [f"{name} ({lines[0]}) has no test" for name, lines in guards.items() if name not in tests]
    found += [f"{held[0]} names {name}, which no source has" for name, held in tests.items() if name not in guards]
    if names:
        found = [complaint for complaint in found if any(name in complaint for name in names)]
    return found + [f"there is no guard {name}" for name in names if name not in guards and name not in tests]


def _judge_all(
    guards: Mapping[str, Sequence[Line]], tests: Mapping[str, Sequence[str]], *, is_checked: bool, is_verbose: bool
) -> list[str]:
    mistakes: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-guards-") as folder:
        copy = Copy(ROOT, Path(folder))
        if is_checked:
            before = copy.judge((), sorted({test for name in guards for test in tests[name]}))
            if before.colour != GREEN:
                return [f"with all guards in place the tests are not green: {before.words}"]
        count = 0
        for name, lines in guards.items():
            for store, removed in variants(lines).items():
                count += 1
                found = copy.judge(removed, tests[name])
                where = f"{removed[0]}" + (f" and {len(removed) - 1} more" if len(removed) > 1 else "")
                title = f"{name} ({store})" if store else name
                print(
                    f"{title:42} {found.colour:6} {found.seconds:6.1f} s  {len(tests[name])} tests  {where}", flush=True
                )
                if is_verbose:
                    print("    " + " ".join(found.words.split())[:300], flush=True)
                if found.colour != RED:
                    mistakes.append(f"{title} ({where}) is {found.colour}: {found.words}")
    print(f"{count} removals of {len(guards)} guards, {len(mistakes)} not red, {time.monotonic() - began:.0f} s")
    return mistakes


if __name__ == "__main__":
    sys.exit(main())
