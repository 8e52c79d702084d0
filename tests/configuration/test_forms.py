"""The form of a configuration: it knows every field there is, and says the same to editors as to programs."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args

import jsonschema
import pytest
from msgspec import Meta

from holdfast import Holdfast, Queue, Schedule, ServerSettings, Service, WebhookSettings, WorkerSettings
from holdfast.about import About
from holdfast.app_options import StoreOptions, TaskDefaults
from holdfast.cadence import DEFAULTS
from holdfast.configuration.checking import check
from holdfast.configuration.forms import form_of, path_of
from holdfast.configuration.report import Report
from holdfast.configuration.schema import json_schema
from holdfast.configuration.yaml_file import read_yaml
from holdfast.policies.budgets import Budget
from holdfast.policies.channels import Channel
from holdfast.policies.escalation import BusinessHours, Escalation
from holdfast.policies.kinds import Kind
from holdfast.policies.limits import Limit
from holdfast.telemetry.settings import TelemetrySettings
from tests.configuration.conftest import Write, errors_of
from tests.configuration.test_errors import TEN
from tests.support.doc_pages import ROOT

VILLAGE = ROOT / "examples" / "village" / "holdfast.yaml"
DEFINITIONS = (
    *(StoreOptions, TaskDefaults, WorkerSettings, Queue, Limit, Budget, Escalation, BusinessHours, Kind, Schedule),
    *(Service, WebhookSettings, TelemetrySettings, ServerSettings, *get_args(Channel)),
)


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_a_file_can_say_what_code_can(definition: Any) -> None:
    for field in dataclasses.fields(definition):
        keys: Any = form_of(definition).keys
        for step in path_of(definition, field.name) if field.init and field.name != "authorize" else ():
            assert isinstance(keys, Mapping)
            keys = keys[step]
        if field.init and field.name != "authorize":  # a function, which no file can say
            assert form_of(keys).sort


def test_a_new_field_is_checked_and_described() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Changed(ServerSettings):
        """How it listens."""

        backlog: Annotated[int, Meta(ge=1, le=10), About("How many callers wait.", 5)] = 3

    report = Report("x")
    sections = {"server": Changed}
    assert check(sections, {"server": {"backlog": 7}}, (), report) == {"server": {"backlog": 7}}
    check(sections, {"server": {"backlog": "many"}}, (), report)
    assert [error.message for error in report.errors] == ["expected a whole number from 1 to 10, got 'many'"]
    described = json_schema(Changed)["properties"]["server"]["properties"]["backlog"]
    assert described["description"] == "How many callers wait."
    assert described["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 10}


# ---- for editors ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def editor() -> jsonschema.Draft202012Validator:
    schema = json_schema(ServerSettings)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def read(text: str) -> Any:
    return read_yaml(text, Report("x"))


def test_the_village_is_valid_for_editors(editor: jsonschema.Draft202012Validator) -> None:
    assert [error.message for error in editor.iter_errors(read(VILLAGE.read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize(
    "text",
    [
        *(
            "workr: {}",
            "queues: {high: {wrkers: 3}}",
            "queues: {high: {workers: many}}",
            "queues: {high: {workers: 0}}",
        ),
        *("queues: {high: {sla: soon}}", "queues: {'a b': {}}", "queues: {preset: six}", "queues: []"),
        *(
            "channels: {a: {type: pager}}",
            "channels: {a: {type: slack}}",
            "channels: {a: {type: pagerduty, key: k, to: 5}}",
        ),
        *("limits: {a: {rate: often}}", "limits: {a: {scope: world}}", "services: {promot: {}}", "leader: {key: x}"),
        *("server: {port: 70000}", "server: {default_role: root}", "server: {users: {ada: root}}"),
        *("schedules: {a: {window: ['09:00']}}", "defaults: {retry: {jitter: 2}}", "worker: {logs: some}"),
    ],
)
def test_an_editor_sees_errors_too(editor: jsonschema.Draft202012Validator, write: Write, text: str) -> None:
    assert not editor.is_valid(read(text))
    assert len(errors_of(write(f"store: sqlite:///jobs.db\n{text}\n"))) == 1


def test_an_editor_sees_most_of_ten_errors(editor: jsonschema.Draft202012Validator) -> None:
    places = {".".join(map(str, list(error.absolute_path)[:3])) for error in editor.iter_errors(read(TEN))}
    assert places == {"", "queues.high.workers", "queues.bulk.sla"}


def keys_without_words(schema: Any, path: str = "") -> Iterator[str]:
    """List the keys of a schema that no sentence describes."""
    for name, part in schema.get("properties", {}).items() if isinstance(schema, dict) else ():
        if name != "type" and not words_of(part):
            yield f"{path}.{name}"
        yield from keys_without_words(part, f"{path}.{name}")
    for way in ("anyOf", "oneOf"):
        for part in schema.get(way, ()) if isinstance(schema, dict) else ():
            yield from keys_without_words(part, path)
    if isinstance(schema, dict) and isinstance(schema.get("additionalProperties"), dict):
        yield from keys_without_words(schema["additionalProperties"], f"{path}.*")


def words_of(schema: Any) -> bool:
    return "description" in schema or any(words_of(part) for part in schema.get("anyOf", ()))


def test_every_key_is_described_to_editors() -> None:
    names = {"ageing", "webhook", "workers", *("completed", "completed_with_errors", "failed", "cancelled")}
    names |= set(DEFAULTS)
    found = {path for path in keys_without_words(json_schema(ServerSettings)) if path.rpartition(".")[2] not in names}
    assert found == set()


# ---- the village ---------------------------------------------------------------------------------------------------


def test_the_village_says_what_its_seed_says() -> None:
    app = Holdfast(config=VILLAGE)
    settings = app.config
    assert {name: (q.priority, q.colour, q.workers, q.sla, q.poll) for name, q in settings.queues.items()} == {
        "high": (0, "salmon", 20, "30s", "5s"),
        "default": (5, "blue", 10, "5m", "10s"),
        "screenshot": (6, "lavender", 3, "2m", "10s"),
        "low": (7, "green", 5, "30m", "30s"),
        "bulk": (8, "yellow", 8, None, "60s"),
    }
    spans = [[settings.retry.delay_ms(n, spread) / 1_000 for spread in (0.0, 1.0)] for n in range(1, 6)]
    assert spans == [[22.5, 37.5], [45, 75], [90, 150], [180, 300], [360, 600]]
    assert settings.retry.delay_ms(12, 1.0) == 3_600_000
    assert settings.max_attempts == 5
    shots = settings.limits["screenshot"]
    assert (shots.scope, shots.concurrency, shots.metric) == ("instance", 3, "screenshot_concurrency_utilization")
    assert settings.budgets["ai"].ceiling == (500 * 10**6, "usd")
    assert len(settings.kinds) == 14
    assert len(app.schedule_definitions) == 10
    told = {name: settings.escalations[queue.escalation or ""] for name, queue in settings.queues.items()}
    assert {name: (*policy.channels, policy.respond_ms) for name, policy in told.items()} == {
        "high": ("pager", 15 * 60_000),
        "default": ("chat", 4 * 3_600_000),
        "screenshot": ("chat", 4 * 3_600_000),
        "low": ("mail", 8 * 3_600_000),
        "bulk": ("mail", 8 * 3_600_000),
    }
    assert told["low"].digest_at == "08:00"
