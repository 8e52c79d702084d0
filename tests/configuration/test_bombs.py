"""Files that are made to be costly: they end with an error, at a cost that their size bounds."""

import time
import tracemalloc
from collections.abc import Iterator

import pytest

from holdfast.configuration.report import Report
from holdfast.configuration.yaml_file import read_yaml
from holdfast.deploy.values import read_file
from holdfast.errors import InvalidValue
from tests.configuration.conftest import Write, errors_of

CPU_S, MEMORY_BYTES = 20, 100_000_000  # each takes a small part of them, and took all there was without its bound


def bomb(levels: int, first: str, following: str) -> str:
    """Let each line name the one before it nine times."""
    lines = (f"a{n}: &a{n} {following.format(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, levels))
    return "\n".join([f"a0: &a0 {first}", *lines])


def chain(levels: int, each: int) -> str:
    """Nest by aliases what is nested a little each time."""
    lines = (f"a{n}: &a{n} {'[' * each}*a{n - 1}{']' * each}" for n in range(1, levels))
    return "\n".join([f"a0: &a0 {'[' * each}{']' * each}", *lines])


DEEP = "expected at most 64 levels of nesting"
MANY = "expected at most 50,000 values"
LONG = "expected at most 1,000,000 characters"
YAML = {
    "aliases": (bomb(12, "[1, 2]", "[{}]"), MANY),
    "merged mappings": (bomb(12, "{x: 1, y: 2}", "{{<<: [{}]}}"), MANY),
    "mappings of aliases": (bomb(12, "{x: 1}", "{{<<: [{}], z: 1}}"), MANY),
    "lists": ("a: " + "[" * 3_000 + "]" * 3_000, DEEP),
    "open lists": ("a: " + "[" * 300_000, DEEP),
    "mappings": ("{a: " * 3_000 + "1" + "}" * 3_000, DEEP),
    "blocks": ("\n".join(f"{' ' * level}a:" for level in range(1_200)), DEEP),
    "dashes": ("- " * 3_000, DEEP),
    "a chain of aliases": (chain(200, 50), DEEP),
    "one level too many": ("a: " + "[" * 64 + "]" * 64, DEEP),
    "a long document": ("# comment\n" * 200_000, LONG),
    "many values": ("a: [" + "1," * 60_000 + "]", MANY),
    "keys that stand there often": ("a: 1\n" * 10_000, "the key stands here twice"),
    "a number without end": (f"a: {'9' * 10_000}", "expected a shorter number"),
    "a merge of itself": ("a: &a {<<: *a}", "expected"),
}
TOML = {
    "arrays": ("a = " + "[" * 3_000 + "]" * 3_000, DEEP),
    "tables": ("a" + ".a" * 3_000 + " = 1", DEEP),
    "inline tables": ("a = " + "{a = " * 3_000 + "1" + "}" * 3_000, DEEP),
    "a number without end": (f"a = {'9' * 10_000}", "expected TOML"),
    "a long document": ("# comment\n" * 200_000, LONG),
}


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """See that a test stays within the bounds."""
    began = time.process_time()
    yield
    assert time.process_time() - began < CPU_S


@pytest.mark.guards("yaml-values")
@pytest.mark.parametrize("text, said", YAML.values(), ids=YAML.keys())
def test_yaml_that_grows_is_a_error(write: Write, text: str, said: str) -> None:
    assert any(said in error.message for error in errors_of(write(text)))


@pytest.mark.parametrize("text, said", TOML.values(), ids=TOML.keys())
def test_toml_that_grows_is_a_error(write: Write, text: str, said: str) -> None:
    assert any(said in error.message for error in errors_of(write(text, "holdfast.toml")))


def test_names_that_lead_nowhere_cost_little(write: Write) -> None:
    queues = "".join(f"  queue{number}: {{}}\n" for number in range(5_000))
    limits = "".join(f"  l{number}: {{rate: 1/s, queue: queeu{number}}}\n" for number in range(3_000))
    found = errors_of(write(f"store: sqlite://\nqueues:\n{queues}limits:\n{limits}"))
    assert len(found) == 1_000
    assert max(len(error.message) for error in found) < 5_000


@pytest.mark.parametrize("name", ["aliases", "merged mappings", "open lists"])
def test_what_grows_takes_little_memory(write: Write, name: str) -> None:
    tracemalloc.start()
    errors_of(write(YAML[name][0]))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MEMORY_BYTES


@pytest.mark.parametrize("text", [text for text, _ in YAML.values()], ids=YAML.keys())
def test_a_values_file_that_grows_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"values\.yaml(:\d+:\d+)?: .*expected|stands here twice"):
        read_file(text, "values.yaml")


def test_aliases_and_merges_that_people_write_are_read() -> None:
    report = Report("x")
    text = "base: &base {attempts: 3, timeout: 1m}\nkinds:\n"
    text += "".join(f"  k{number}: {{<<: *base, n: {number}}}\n" for number in range(2_000))
    read = read_yaml(text, report)
    assert report.errors == []
    assert read["kinds"]["k1999"] == {"attempts": 3, "timeout": "1m", "n": 1999}
