"""`key=value` on the command line, made the arguments of a task.

`key=text` stays text where the task's annotation takes that text, and is read as JSON where it does not: `n=5` is the
number 5 for `n: int` and the text "5" for `n: str`, `n: Any` or no annotation. `key:=JSON` is always JSON.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast import payload
from holdfast.client.kinds import Kinds
from holdfast.errors import ArgumentError, UnknownKind
from holdfast.tasks.pipeline import PipelineTask
from holdfast.tasks.signature import resolved_hints
from holdfast.tasks.task import FunctionTask, Task

STDIN = "-"
FILE_MARK = "@"


def read_pairs(task: Task[..., Any] | None, pairs: Sequence[str], schema: Mapping[str, Any] | None = None) -> str:
    """Write `key=value` and `key:=JSON` as JSON; the task, if it is known, checks it afterwards.

    Without the task, the JSON Schema of its arguments says which of them take text.
    """
    annotations = _annotations(task)

    def takes(name: str, encoded: bytes) -> bool:
        if schema is not None:
            of_name = _resolved(schema, schema).get("properties", {}).get(name, {})
            return _allows_text(schema, of_name, msgspec.json.decode(encoded))
        return _fits(encoded, annotations.get(name, Any))

    found: dict[str, msgspec.Raw] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        name = key.removesuffix(":")
        if not equals or not name:
            message = f"expected key=value or key:=JSON, got {pair!r}"
            raise ArgumentError(message)
        if name in found:
            message = f'argument {name} is given twice; a list is written {name}:=\'["a", "b"]\''
            raise ArgumentError(message)
        found[name] = _forced(name, value) if key != name else _chosen(name, value, takes)
    return msgspec.json.encode(found).decode()


def read_args(source: str) -> str:
    """Read `--args`: JSON itself, `-` for stdin, `@file` for a file; the task checks it afterwards."""
    try:
        if source == STDIN:
            return sys.stdin.buffer.read().decode()
        if source.startswith(FILE_MARK):
            return Path(source.removeprefix(FILE_MARK)).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"--args {source}: expected JSON in UTF-8: {error}"
        raise ArgumentError(message) from error
    except OSError as error:
        message = f"--args {source}: cannot be read: {error.strerror or error}"
        raise ArgumentError(message) from error
    return source


def _annotations(task: Task[..., Any] | None) -> Mapping[str, Any]:
    if isinstance(task, FunctionTask):
        return resolved_hints(task.name, task.function)
    if isinstance(task, PipelineTask):
        return resolved_hints(task.name, task.pipeline)
    return {}


def _forced(name: str, value: str) -> msgspec.Raw:
    if not _is_json(value):
        message = f"argument {name}: expected JSON after {name}:=, got {value!r}; text is written {name}={value}"
        raise ArgumentError(message)
    return msgspec.Raw(value.encode())


def _chosen(name: str, value: str, takes: Callable[[str, bytes], bool]) -> msgspec.Raw:
    try:
        as_text = msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        message = f"argument {name}: expected text in UTF-8, got {value!a}"
        raise ArgumentError(message) from error
    # What is neither goes on as text: the task's own refusal names the argument and what it expects.
    is_text = takes(name, as_text) or not _is_json(value)
    return msgspec.Raw(as_text if is_text else value.encode())


def _fits(encoded: bytes, annotation: Any) -> bool:
    try:
        msgspec.json.decode(encoded, type=annotation, dec_hook=payload.decode_model)
    except msgspec.DecodeError:
        return False
    return True


def _allows_text(schema: Mapping[str, Any], spec: Mapping[str, Any], value: str) -> bool:
    """Whether a JSON Schema takes a text; one that says nothing takes everything."""
    spec = _resolved(schema, spec)
    if "enum" in spec:
        return value in spec["enum"]
    if choices := spec.get("anyOf") or spec.get("oneOf"):
        return any(_allows_text(schema, choice, value) for choice in choices)
    kinds = spec.get("type", "string")
    return "string" in ([kinds] if isinstance(kinds, str) else kinds)


def _resolved(schema: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference to what stands under `$defs`."""
    name = str(spec.get("$ref", "")).rpartition("/")[2]
    found: Mapping[str, Any] = schema.get("$defs", {}).get(name, {}) if name else spec
    return found


def _is_json(value: str) -> bool:
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


async def schema_of(kinds: Kinds, kind: str) -> dict[str, Any]:
    """Read the JSON Schema of the arguments of a kind; one that no program has published takes any arguments."""
    try:
        return (await kinds.get(kind)).args_schema
    except UnknownKind:
        return {}
