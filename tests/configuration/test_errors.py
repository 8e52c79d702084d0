"""Every error of a configuration is reported, at once, with its place; no secret is."""

from pathlib import Path

import pytest

from holdfast import ConfigError, Holdfast, InvalidConfig
from tests.configuration.conftest import Write, errors_of

TEN = """\
store: sqlite:///jobs.db
workr:
  concurrency: 3
queues:
  high: {workers: many}
  low: {workers: {min: 20, max: 10}}
  bulk: {sla: soon, colour: blue, colour: red}
kinds:
  resize: {limits: [shot], queue: bulk}
limits:
  shots: {queue: bulk, concurrency: 3, key: tenant}
  empty: {queue: bulk}
budgets:
  ai: {amount: lots}
channels:
  pager: {type: pagerduty, key: "${NO_SUCH_KEY}"}
"""


def test_ten_errors_are_ten_errors(write: Write) -> None:
    found = errors_of(write(TEN))
    assert [(error.place, error.path) for error in found] == [
        ("holdfast.yaml:2:1", "workr"),
        ("holdfast.yaml:5:10", "queues.high.workers"),
        ("holdfast.yaml:6:28", "queues.low.workers.max"),
        ("holdfast.yaml:7:10", "queues.bulk.sla"),
        ("holdfast.yaml:7:35", "queues.bulk.colour"),
        ("holdfast.yaml:9:21", "kinds.resize.limits.0"),
        ("holdfast.yaml:11:40", "limits.shots.key"),
        ("holdfast.yaml:12:3", "limits.empty"),
        ("holdfast.yaml:14:8", "budgets.ai.amount"),
        ("holdfast.yaml:16:28", "channels.pager.key"),
    ]
    assert [error.message for error in found] == [
        "unknown key; did you mean worker?",
        "expected a whole number from 1 to 10000, got 'many'",
        "expected at least workers (20), got 10",
        "expected a duration like 90s, 5m or 1h 30m, got 'soon'",
        "the key stands here twice, first in line 7",
        "expected a limit that is defined, got 'shot'; did you mean shots?",
        "expected args.<field>, tags.<name>, actor, kind or queue, got 'tenant'",
        "expected at least one of concurrency, throttle, rate, rotate and fifo, got none",
        'expected an amount like "$500", "0.02 usd" or "1000 tokens", got \'lots\'',
        "the environment variable NO_SUCH_KEY is not set; set it, or write ${NO_SUCH_KEY:-default}",
    ]


def test_they_are_one_error_with_a_line_each(write: Write) -> None:
    with pytest.raises(InvalidConfig) as caught:
        Holdfast.from_config(write(TEN))
    lines = str(caught.value).splitlines()
    assert lines[0] == "holdfast.yaml: 10 errors"
    assert lines[1] == "  holdfast.yaml:2:1: workr: unknown key; did you mean worker?"
    assert len(lines) == 11
    assert isinstance(caught.value, ConfigError)


@pytest.mark.guards("configuration-references")
@pytest.mark.parametrize(
    "text, path, said",
    [
        ("queues: {high: {prority: 3}}", "queues.high.prority", "did you mean priority?"),
        ("queues: {high: {zzz: 3}}", "queues.high.zzz", "expected among ageing, colour"),
        ("queues: {'a b': {priority: 3}}", "queues.a b", "expected 1 to 64 letters"),
        ("queues: {High: {}, high: {}}", "queues.high", "names are compared without case"),
        ("queues: [high]", "queues", "expected a mapping, got a list"),
        ("queues: {preset: fiv}", "queues.preset", "expected five, got 'fiv'"),
        ("queues: {high: {workers: {max: 3}}}", "queues.high.workers.max", "expected at least workers (None), got 3"),
        ("queues: {high: {priority: true}}", "queues.high.priority", "expected a whole number from 0 to 10, got True"),
        ("queues: {high: {priority: '3'}}", "queues.high.priority", "got '3'"),
        ("queues: {high: {tell_retention: yes}}", "queues.high.tell_retention", "expected true or false, got 'yes'"),
        ("queues: {high: {retention: {complete: 3d}}}", "queues.high.retention.complete", "did you mean completed?"),
        ("queues: {high: {retention: 101w}}", "queues.high", "expected at most 100 weeks"),
        ("queues: {high: {escalation: pager}}", "queues.high.escalation", "there are none"),
        ("queues: {high: {webhook: 'https://example.org/x'}}", "", "no secret to sign"),
        ("queues: {high: {retry: {base: 10s, factr: 3}}}", "queues.high.retry.factr", "did you mean factor?"),
        ("defaults: {on_error: ignore}", "defaults.on_error", "expected retry or fatal, got 'ignore'"),
        ("defaults: {retry: {jitter: 2}}", "defaults.retry.jitter", "expected a number from 0 to 1, got 2"),
        ("worker: {processes: 20}", "worker.processes", "expected at most concurrency (10), got 20"),
        ("worker: {lease: 0s}", "worker.lease", "expected more than 0, got '0s'"),
        ("worker: 5", "worker", "expected a mapping of concurrency, processes"),
        ("limits: {a: {scope: instance, concurrency: 3}}", "limits.a", 'scope="instance": expected concurrency'),
        ("limits: {a: {rate: 3 per day}}", "limits.a.rate", 'like "50/s"'),
        ("limits: {a: {queue: hgh, rate: 3/s}}\nqueues: {high: {}}", "limits.a.queue", "did you mean high?"),
        ("budgets: {ai: {period: day}}", "budgets.ai.amount", "expected a value, got nothing; add it"),
        ("budgets: {ai: {amount: $5, tz: Mars}}", "budgets.ai.tz", "IANA name of a time zone"),
        ("budgets: {ai: {amount: $5, thresholds: {most: alert}}}", "budgets.ai.thresholds.most", "80% or 0.8"),
        ("budgets: {ai: {amount: $5, thresholds: {50%: panic}}}", "budgets.ai.thresholds.50%", "got 'panic'"),
        ("channels: {a: {type: pager}}", "channels.a.type", "expected the type of a channel, got 'pager'"),
        ("channels: {a: {key: x}}", "channels.a.type", "expected pagerduty or slack or email or webhook"),
        ("channels: {a: {type: email, sender: a@b.c, to: ops}}", "channels.a.to", "expected an address like"),
        ("channels: {a: {type: email, to: a@b.c}}", "channels.a.sender", "got nothing"),
        ("escalations: {a: {channels: [chat]}}", "escalations.a.channels.0", "expected a channel that is defined"),
        (
            (
                "channels: {c: {type: pagerduty, key: k}}\n"
                "escalations: {pager: {channels: c, respond_within: 1h, then: pagr}}"
            ),
            "escalations.pager.then",
            "did you mean pager?",
        ),
        ("escalations: {a: {channels: [], digest_at: 25:00}}", "escalations.a.digest_at", 'like "08:00"'),
        ("kinds: {a: {budget: ai}}", "kinds.a.budget", "expected a budget that is defined, got 'ai'"),
        ("kinds: {a: {debounce_key: args.x}}", "kinds.a.debounce_key", "expected with debounce"),
        ("schedules: {a: {cron: 1 2 3}}", "schedules.a.cron", "expected five fields"),
        ("schedules: {a: {cron: '@daily', every: 5m}}", "schedules.a", "expected either cron or every"),
        ("schedules: {a: {every: 5m, window: ['09:00']}}", "schedules.a.window", "a list of 2 values, got 1"),
        ("schedules: {a: {every: 5m, days: mon-fun}}", "schedules.a.days", "expected weekdays"),
        ("services: {promotio: {interval: 5s}}", "services.promotio", "did you mean promotion?"),
        ("services: {lane_counts: {batch: 5}}", "", "'lane_counts' takes no batch"),
        ("delivery: {redis: redis://h/0, arq: redis://h/0}", "delivery", "expected one of"),
        ("delivery: {high: redis://h/0}", "delivery", "expected one of"),
        ("delivery: http://h", "delivery", "expected redis://host"),
        ("leader: {key: x}", "leader.url", "got nothing"),
        ("webhooks: {deadline: 2h}", "webhooks.deadline", "at most 60s"),
        ("app: 5", "app", "expected text"),
        ("- a\n- b", "", "expected a mapping of sections, got a list"),
        ("queues: !!python/object:os.system {}", "queues", "got the tag tag:yaml.org,2002:python/object"),
        ("app: !secret x", "app", "expected a plain value, got the tag !secret"),
        ("queues: {high: &a {retention: *a}}", "queues.high.retention", "an alias of what surrounds it"),
        ("queues: {high: {description: '${oops'}}", "queues.high.description", "expected ${NAME}"),
    ],
)
def test_a_error(write: Write, text: str, path: str, said: str) -> None:
    file = write(f"store: sqlite:///jobs.db\n{text}" if not text.startswith("-") else text)
    found = errors_of(file)
    assert [error.path for error in found] == [path]
    assert said in found[0].message


def test_broken_yaml_names_line_and_column(write: Write) -> None:
    (found,) = errors_of(write("store: sqlite:///jobs.db\nqueues: {high: [}\n"))
    assert found.place == "holdfast.yaml:2:17"
    assert found.message.startswith("expected YAML: ")


def test_broken_toml_names_line_and_column(write: Write) -> None:
    (found,) = errors_of(write("[store]\nurl = \n", "holdfast.toml"))
    assert found.message.startswith("expected TOML: ")
    assert "line 2" in found.message


def test_the_store_is_needed(write: Write) -> None:
    (found,) = errors_of(write("queues: {high: {}}\n"))
    assert (found.path, found.place) == ("store.url", "holdfast.yaml")
    with pytest.raises(ConfigError, match="expected a URL"):
        Holdfast()


@pytest.mark.parametrize(
    "text",
    [
        "store: postgresql://user:hunter2@host:port/db",
        "store: {url: 'mysql://user:hunter2@host/db'}",
        "delivery: redis://:hunter2@host/nine",
        "channels: {a: {type: slack, url: hunter2}}",
        "channels: {a: {type: pagerduty, kay: hunter2}}",
        "channels: {a: {type: pagerduty, key: [hunter2]}}",
        "channels: {a: {type: webhook, url: 'https://x.org', secret: {hunter2: 1}}}",
        "webhooks: {secret: hunter2}",
        "webhooks: {endpoints: {'https://x.org': hunter2}}",
        "queues: {a: {webhook: {url: 'https://x.org', secret: hunter2}}}",
        "channels: {a: {type: email, to: a@b.c, sender: a@b.c, password: ['hunter2']}}",
    ],
)
def test_no_secret_is_shown(write: Write, text: str) -> None:
    found = errors_of(write(text if text.startswith("store") else f"store: sqlite:///jobs.db\n{text}"))
    assert "hunter2" not in " ".join(map(str, found))


def test_a_file_that_cannot_be_read(tmp_path: Path, write: Write) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Holdfast(config=tmp_path / "missing.yaml")
    (tmp_path / "odd.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        Holdfast(config=tmp_path / "odd.yaml")
    with pytest.raises(ConfigError, match=r"ends with \.yaml, \.yml or \.toml"):
        Holdfast(config=write("{}", "holdfast.json"))
