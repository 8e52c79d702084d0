"""Who wins, lowest first: default, code, preset and file, environment."""

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Holdfast, Queue, Role, Schedule, ServerSettings, WorkerSettings, backoff
from holdfast.policies.channels import PagerDuty
from holdfast.policies.limits import Limit
from holdfast.presets import FIVE_QUEUES
from tests.configuration.conftest import Write, errors_of


def test_default_code_file_environment(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    code = Queue("high", priority=1, workers=2, sla="1m", colour="red")
    file = write("store: sqlite:///jobs.db\nqueues: {high: {workers: 3, sla: 2m}}\n")
    monkeypatch.setenv("HOLDFAST_QUEUES__HIGH__SLA", "3m")
    queue = Holdfast("sqlite://", config=file, queues=[code]).config.queues["high"]
    assert (queue.poll, queue.priority, queue.workers, queue.sla_ms) == (None, 1, 3, 180_000)
    assert queue.colour == "red"


def test_the_file_lies_over_what_code_says(write: Write) -> None:
    file = write("""
store: {url: "sqlite:///file.db", deadline: 3s}
defaults: {timeout: none, retry: {base: 10s}, max_attempts: 7}
worker: {concurrency: 20, poll: 500ms}
limits: {tenant: {concurrency: 5}}
services: {promotion: {batch: 7}}
""")
    app = Holdfast.from_config(
        file,
        url="sqlite:///code.db",
        max_attempts=2,
        max_crashes=4,
        retry=backoff(base="1m", factor=3),
        worker=WorkerSettings(concurrency=4, processes=2),
        limits=[Limit(name="tenant", key="args.tenant", concurrency=2), Limit(name="other", concurrency=1)],
    )
    settings = app.config
    assert (settings.url, settings.deadline_s) == ("sqlite:///file.db", 3.0)
    assert (settings.max_attempts, settings.max_crashes, settings.timeout_ms) == (7, 4, None)
    assert (settings.retry.base_ms, settings.retry.factor) == (10_000, 3)
    assert (settings.worker.concurrency, settings.worker.processes, settings.worker.poll_s) == (20, 2, 0.5)
    assert (settings.limits["tenant"].concurrency, settings.limits["tenant"].path) == (5, ("payload", "tenant"))
    assert settings.limits["other"].concurrency == 1
    assert (settings.services["promotion"].batch, settings.services["promotion"].interval) == (7, "5s")


def test_without_a_file_nothing_changes() -> None:
    app = Holdfast("sqlite://", queues=(queue for queue in [Queue("high")]))
    assert app.configuration is None
    assert list(app.config.queues) == ["high"]


def test_the_preset(write: Write) -> None:
    file = write("store: sqlite:///jobs.db\nqueues: {preset: five, low: {workers: 6}, mine: {}}\n")
    queues = Holdfast(config=file, queues=[Queue("high", workers=1)]).config.queues
    assert list(queues) == ["high", "default", "screenshot", "low", "bulk", "mine"]
    assert (queues["high"].workers, queues["high"].sla) == (1, None), "what code defines stays as it is"
    assert (queues["low"].workers, queues["low"].sla) == (6, "30m")
    assert [(queue.name, queue.priority, queue.workers, queue.sla_ms, queue.poll_ms) for queue in FIVE_QUEUES] == [
        ("high", 0, 20, 30_000, 5_000),
        ("default", 5, 10, 300_000, 10_000),
        ("screenshot", 6, 3, 120_000, 10_000),
        ("low", 7, 5, 1_800_000, 30_000),
        ("bulk", 8, 8, None, 60_000),
    ]


def test_all_forms_of_a_queue(write: Write) -> None:
    secret = "whsec_" + "A" * 32
    file = write(
        f"""
store: sqlite:///jobs.db
queues:
  a:
    workers: {{min: 2, max: 20}}
    ageing: {{after: 3m, share: 4}}
    webhook: {{url: "https://example.org/x", events: job:failed, secret: {secret}}}
    retention: {{failed: 90d}}
    stale_after: 1d
    timeout: null
    retry: {{growth: fixed, base: 5s}}
    sla: none
  b: {{workers: 4, retention: forever, retry: 7s}}
"""
    )
    queues = Holdfast(config=file, queues=[Queue("b", workers=1, max_workers=9)]).config.queues
    a, b = queues["a"], queues["b"]
    assert (a.workers, a.max_workers, a.age_after_ms, a.age_share) == (2, 20, 180_000, 4)
    assert (a.webhook, a.webhook_events, len(a.webhook_keys)) == ("https://example.org/x", ("job:failed",), 1)
    assert (a.retention_ms["failed"], a.retention_ms["completed"]) == (90 * 86_400_000, 7 * 86_400_000)  # type: ignore[index] # a state is a text
    assert (a.timeout_ms, a.sla_ms, len(a.stale_ms)) == (None, None, 4)
    assert a.retry == backoff("fixed", "5s")
    assert (b.workers, b.max_workers) == (4, None), "a fixed number takes the place of a range"
    assert set(b.retention_ms.values()) == {None}
    assert b.retry == backoff(base="7s")


def test_policies_and_channels(write: Write) -> None:
    file = write("""
store: sqlite:///jobs.db
limits:
  tenant: {kinds: [resize, crop], key: args.tenant, concurrency: 3, throttle: 50/s, burst: 5, rotate: true}
budgets:
  ai:
    {amount: 2000000 tokens, period: day, thresholds: {75%: reduce, "0.9": defer, 100%: [alert, stop]}}
channels:
  code: {type: slack, url: "https://hooks.example.org/x"}
  mail: {type: email, to: [a@b.c, d@e.f], sender: g@h.i, port: 587, starttls: true, username: u, password: p}
  hook: {type: webhook, url: "https://example.org", secret: s}
escalations:
  ops:
    channels: [code, mail]
    business_hours: {days: [mon, wed], from: 08:00, to: 24:00, holidays: [2026-12-25, [2026-12-31, 2027-01-02]]}
    respond_within: 4h
    then: pager
  pager: {channels: hook}
""")
    settings = Holdfast(config=file, channels={"pager": PagerDuty(key="k")}).config
    assert settings.limits["tenant"].kinds == ("resize", "crop")
    assert settings.budgets["ai"].ceiling == (2_000_000 * 10**6, "tokens")
    assert list(settings.budgets["ai"].thresholds) == [(0.75, "reduce"), (0.9, "defer"), (1.0, "alert"), (1.0, "stop")]
    assert sorted(settings.channels) == ["code", "hook", "mail", "pager"]
    hours = settings.escalations["ops"].business_hours
    assert hours is not None
    assert (hours.hours.days, hours.hours.window, len(hours.hours.exclude)) == ((0, 2), (480, 1_440), 2)
    assert (settings.escalations["ops"].channels, settings.escalations["ops"].then) == (("code", "mail"), "pager")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("redis://h/0", "[Shard(name='all', url='redis://h/0', priorities=(0, 10), weight=1)]"),
        ("{redis: redis://h/0, prefix: shop}", "shop"),
        ("{high: redis://h/0, low: redis://h/1}", "name='low'"),
        ("{shards: [{name: one, url: redis://h/0, priorities: [0, 10]}]}", "name='one'"),
        ("{arq: redis://h/0, queue: q}", "q at redis://h/0"),
    ],
)
def test_delivery(write: Write, text: str, expected: str) -> None:
    file = write(f"store: sqlite:///jobs.db\ndelivery: {text}\nleader: redis://h/2\n")
    settings = Holdfast(config=file).config
    shown = str(settings.delivery)
    assert expected.strip("[]") in shown
    assert str(settings.leader) == "holdfast:leader at redis://h/2"


# ---- tasks and schedules -------------------------------------------------------------------------------------------


def test_a_kind_lies_over_its_task(write: Write) -> None:
    file = write(
        "store: sqlite:///jobs.db\nkinds: {resize: {queue: low, max_attempts: 2, retry: {base: 1s}, note: x}}\n"
    )
    app = Holdfast(config=file)

    @app.task(queue="high", max_attempts=9, timeout="5m")
    async def resize() -> None: ...

    assert (resize.queue, resize.policy.max_attempts, resize.policy.note) == ("low", 2, "x")
    assert resize.policy.timeout_ms == 300_000
    assert resize.policy.retry == backoff(base="1s")


def test_schedules(write: Write) -> None:
    file = write("""
store: sqlite:///jobs.db
schedules:
  whole: {every: 5m, window: [09:30, 16:00], days: mon-fri, tz: America/New_York}
  part: {enabled: false}
  named: {kind: refresh, cron: 0 3 * * *, args: {depth: 3}, exclude: [2026-12-25]}
  given: {every: 1m}
""")
    app = Holdfast(config=file, schedules=[Schedule(name="given", kind="refresh", cron="@daily", overlap="queue")])
    schedules = app.schedule_definitions
    assert sorted(schedules) == ["given", "named", "whole"], "the rest of `part` is left to code"
    assert (schedules["given"].times.cron, schedules["given"].times.every_ms) == (
        None,
        60_000,
    )
    assert schedules["given"].overlap == "queue"
    assert (schedules["named"].kind, schedules["named"].args) == ("refresh", {"depth": 3})
    monday = datetime(2026, 11, 16, 14, 31, tzinfo=UTC)
    assert schedules["whole"].times.next_after(monday) == datetime(2026, 11, 16, 14, 35, tzinfo=UTC)

    @app.schedule(every="1h", jitter="5m")
    @app.task
    async def part() -> None: ...

    @app.schedule(cron="@daily")
    @app.task
    async def whole() -> None: ...

    schedules = app.schedule_definitions
    assert (schedules["part"].enabled, schedules["part"].times.every_ms) == (
        False,
        3_600_000,
    )
    assert schedules["whole"].times.every_ms == 300_000
    with pytest.raises(ValueError, match="defined twice"):
        app.schedule_definitions.add(Schedule(name="whole", kind="whole", every="1m"))


# ---- environment ---------------------------------------------------------------------------------------------------


def test_references_to_the_environment(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write("""
store: "sqlite:///${FOLDER:-/tmp}/jobs.db"
queues:
  high: {workers: "${WORKERS}", priority: "${PRIORITY:-3}", description: "a $${b} ${EMPTY:-c}"}
  low: {tell_retention: "${TELL}"}
kinds: {resize: {limits: "${LIMITS}"}}
limits: {a: {rate: 1/s}, b: {rate: 1/s}}
""")
    for name, value in {"WORKERS": "7", "EMPTY": "", "TELL": "on", "LIMITS": "a, b"}.items():
        monkeypatch.setenv(name, value)
    settings = Holdfast(config=file).config
    high = settings.queues["high"]
    assert settings.url == "sqlite:////tmp/jobs.db"
    assert (high.workers, high.priority, high.description) == (7, 3, "a ${b} c")
    assert settings.queues["low"].tell_retention
    assert settings.kinds["resize"].limits == ("a", "b")
    monkeypatch.setenv("WORKERS", "seven")
    (found,) = errors_of(file)
    assert (found.path, "got 'seven'" in found.message) == ("queues.high.workers", True)


FILE = """
store: sqlite:///jobs.db
queues: {high: {}, stock-refresh: {workers: 3}}
channels: {chat: {type: slack, url: "https://h.example.org"}}
limits: {tenant: {rate: 5/s}}
"""


@pytest.mark.parametrize(
    "name, text, expectation",
    [
        ("HOLDFAST_STORE", "sqlite:///other.db", (lambda s: s.url, "sqlite:///other.db")),
        ("HOLDFAST_STORE__SCHEMA", "shop", (lambda s: (s.url, s.schema), ("sqlite:///jobs.db", "shop"))),
        ("HOLDFAST_QUEUES__HIGH__WORKERS", "30", (lambda s: s.queues["high"].workers, 30)),
        ("HOLDFAST_QUEUES__STOCK_REFRESH__WORKERS__MAX", "9", (lambda s: s.queues["stock-refresh"].max_workers, 9)),
        ("HOLDFAST_QUEUES__HIGH__WORKERS", '{"min": 1, "max": 4}', (lambda s: s.queues["high"].max_workers, 4)),
        ("HOLDFAST_QUEUES__DEFAULT__SLA", "1m", (lambda s: s.queues["default"].sla_ms, 60_000)),
        ("HOLDFAST_DEFAULTS__RETRY__JITTER", "0.5", (lambda s: s.retry.jitter, 0.5)),
        ("HOLDFAST_LIMITS__TENANT__KINDS", "a,b", (lambda s: s.limits["tenant"].kinds, ("a", "b"))),
        ("HOLDFAST_CHANNELS__CHAT__URL", "https://x.org", (lambda s: s.channels["chat"].url, "https://x.org")),
        ("HOLDFAST_KINDS__RESIZE__QUEUE", "high", (lambda s: s.kinds["resize"].queue, "high")),
        ("HOLDFAST_SERVICES__PROMOTION__ENABLED", "false", (lambda s: s.services["promotion"].enabled, False)),
        ("HOLDFAST_WORKER__POLL", "2", (lambda s: s.worker.poll_s, 2.0)),
        ("HOLDFAST_QUEUES__PRESET", "five", (lambda s: s.queues["bulk"].workers, 8)),
    ],
)
def test_variables_override_any_path(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str, text: str, expectation: tuple[Any, Any]
) -> None:
    read, expected = expectation
    monkeypatch.setenv(name, text)
    assert read(Holdfast(config=write(FILE)).config) == expected


@pytest.mark.parametrize(
    "name, path, said",
    [
        ("HOLDFAST_QUEUE__HIGH__WORKERS", "queue", "did you mean queues?"),
        ("HOLDFAST_QUEUES__HIHG__WORKERS", "queues.hihg", "did you mean high?"),
        ("HOLDFAST_QUEUES__HIGH__WORKRES", "queues.high.workres", "did you mean workers?"),
        ("HOLDFAST_QUEUES__HIGH__WORKERS", "queues.high.workers", "got 'x'"),
        ("HOLDFAST_QUEUES__HIGH__SLA__X", "queues.high.sla", "expected a duration like 90s, 5m or 1h 30m, got {"),
        ("HOLDFAST_CHANNELS__CHAT__KEY", "channels.chat.key", "unknown key"),
    ],
)
def test_a_wrong_variable_is_named(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str, path: str, said: str
) -> None:
    monkeypatch.setenv(name, "x")
    (found,) = errors_of(write(FILE))
    assert (found.place, found.path) == (f"environment {name}", path)
    assert said in found.message


# ---- the server ----------------------------------------------------------------------------------------------------


def test_the_server_of_a_file_lies_over_code_and_below_the_environment(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("""
store: sqlite:///jobs.db
server:
  host: 0.0.0.0
  port: 9000
  proxies: 10.0.0.0/8
  users: {ada@example.org: admin}
  default_role: none
  user_header: X-User
""")
    monkeypatch.setenv("HOLDFAST_SERVER__PORT", "9001")
    app = Holdfast(config=file)
    found = app.server_settings(ServerSettings(port=1, max_body=5_000))
    assert (found.host, found.port, found.max_body, found.proxies) == ("0.0.0.0", 9001, 5_000, ("10.0.0.0/8",))  # noqa: S104 - as the file says
    assert (found.role_of("ada@example.org"), found.role_of("bob")) == (Role.ADMIN, None)
    assert Holdfast("sqlite://").server_settings() == ServerSettings()


def test_errors_of_a_server_are_found_with_all_others(write: Write) -> None:
    text = "store: sqlite:///jobs.db\nserver: {prot: 1, proxies: [here], url: ftp://x, default_role: root}\n"
    assert len(errors_of(write(text))) == 4
