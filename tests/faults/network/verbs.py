"""One call of every verb of a store, to be made over a link that breaks."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from holdfast.resources.bulk import BulkState, BulkVerb
from holdfast.stores.access import AccessStore, AuditFilter, NewAuditEntry, NewToken
from holdfast.stores.alarms import Alarm, AlarmStore, EscalationRow, Notice, NoticeStore
from holdfast.stores.budgets import BudgetRow, BudgetStore, Reservation, Spend
from holdfast.stores.bulk import BulkOperationRow, BulkStore, NewBulk
from holdfast.stores.cluster import (
    AnnounceStore,
    Fire,
    LeaderStore,
    LockRequest,
    LockStore,
    ScheduleStore,
    ServiceReport,
    SettingStore,
)
from holdfast.stores.deliveries import DeliveryStore, Message
from holdfast.stores.failures import DeadFilter, FailureStore
from holdfast.stores.limits import LimitRow, LimitStore
from holdfast.stores.moving import JOBS, PARTS, Move, MoveProgress, MoveStore, Release, Stage
from holdfast.stores.policies import KindRow, PolicyRow, PolicyStore
from holdfast.stores.policies import Move as KindMove
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.searching import SearchStore
from holdfast.stores.sla import Look, SlaRow, SlaStore, TuningRow, TuningStore
from holdfast.stores.store import (
    EventStore,
    JobStore,
    LeaseStore,
    QueueStore,
    RetentionStore,
    UpkeepStore,
    WakeStore,
    WorkStore,
)
from holdfast.stores.values import JobFilter, ProgressReport, RetentionDue, Started, WorkerProcess
from holdfast.stores.why import WhyStore
from holdfast.transitions import completed
from tests.support.builders import keeping
from tests.support.connections import new_job, request

Call = Callable[[PostgresStore], Awaitable[Any]]
ROLES: tuple[Any, ...] = (
    SearchStore,
    PolicyStore,
    JobStore,
    WorkStore,
    UpkeepStore,
    LeaseStore,
    QueueStore,
    EventStore,
    DeliveryStore,
    AlarmStore,
    NoticeStore,
    RetentionStore,
    FailureStore,
    BulkStore,
    LockStore,
    LimitStore,
    BudgetStore,
    AnnounceStore,
    ScheduleStore,
    SettingStore,
    LeaderStore,
    SlaStore,
    TuningStore,
    WhyStore,
    AccessStore,
    WakeStore,
    MoveStore,
)
MOVE = Move("0a", "elsewhere", with_history=False, stage=Stage.DRAINING)
KIND_MOVE = KindMove(kind="work", source="q", queue="low", was=5, becomes=5)
PROGRESS = MoveProgress("0a", 0, "test")
MESSAGE = Message(
    id=1,
    job_id=1,
    life=1,
    event="job:completed",
    url="https://example.org/",
    at=datetime.now(UTC),
    task="work",
    queue="q",
    status="completed",
    attempt=1,
    tags=None,
    error_class=None,
    error=None,
    result=None,
    result_omitted=False,
    tries=1,
)
DUE = RetentionDue(job_id=1, life=1, what="stale", tries=1)
FIRE = Fire(datetime(2026, 1, 1, tzinfo=UTC), "enqueued", new_job(1))
RUN = BulkOperationRow(
    id=1,
    verb=BulkVerb.RETRY,
    which=JobFilter(),
    priority=None,
    actor=None,
    reason=None,
    state=BulkState.RUNNING,
    expected=1,
    spacing_us=0,
    step=0,
    done=0,
    refused=0,
    cursor=None,
    started_at=datetime.now(UTC),
    next_at=datetime.now(UTC),
    ended_at=None,
)

ALARM = Alarm(source="failed", title="it failed", policy="ops")
NOTICE = Notice(id=1, escalation=1, policy="ops", channel="chat", event="trigger", data="{}", age_ms=0, tries=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BUDGET = BudgetRow("ai", "{}", "usd", 1_000, "day", "UTC", None, ("work",), (), ((1_000_000, "stop"),))
SPEND = Spend(1, 1, 1, None, "", "work", "default", None, "usd", 5, None, None, None)
NAMED = {"id": 1, "policy": "ops", "stage": "ops", "source": "failed", "queue": "q", "kind": "work", "title": "it"}
COUNTED = {"jobs": (), "count": 1, "said": 0, "digested": 0, "version": 1, "first_at": NOW, "last_at": NOW}
REST = dict.fromkeys(EscalationRow.__struct_fields__)
ESCALATION = EscalationRow(**{**REST, **NAMED, **COUNTED, "fingerprint": ""})  # type: ignore[arg-type] # by name
LOOK = Look(queue="q", sla_ms=1, p95_ms=None, starts=0, oldest_ms=None, waiting=0, is_late=False)
WAITS = SlaRow(
    queue="q",
    sla_ms=1,
    p95_ms=None,
    starts=0,
    oldest_ms=None,
    waiting=0,
    looked_at=NOW,
    breached_at=NOW,
    ended_at=None,
    told_at=None,
)
DEED = NewAuditEntry(
    actor="me", role="admin", action="pause", target="/", queue="q", status=200, detail="{}", request="r"
)
TUNING = TuningRow(instance="i", queue="q", workers=2, lowest=1, highest=3, reason="2, its minimum")

VERBS: dict[str, Call] = {
    "take_ids": lambda store: store.take_ids(3),
    "insert_jobs": lambda store: store.insert_jobs([new_job(1)], again=True),
    "get_jobs": lambda store: store.get_jobs([1]),
    "finished_jobs": lambda store: store.finished_jobs([1]),
    "list_jobs": lambda store: store.list_jobs(JobFilter(), limit=10),
    "search_jobs": lambda store: store.search_jobs(JobFilter(words=("x",)), limit=10),
    "count_found": lambda store: store.count_found(JobFilter()),
    "count_jobs": lambda store: store.count_jobs(),
    "cancel_jobs": lambda store: store.cancel_jobs([1], actor=None, reason=None),
    "retry_jobs": lambda store: store.retry_jobs([1]),
    "delete_jobs": lambda store: store.delete_jobs([1]),
    "reschedule_jobs": lambda store: store.reschedule_jobs([1], run_at=None, delay_ms=1),
    "reprioritise_jobs": lambda store: store.reprioritise_jobs([1], 3),
    "claim_jobs": lambda store: store.claim_jobs(request(1)),
    "claim_jobs_by_id": lambda store: store.claim_jobs_by_id(request(1), [1]),
    "give_back_batch": lambda store: store.give_back_batch(1, 1),
    "start_jobs": lambda store: store.start_jobs([Started(1, 1, 0)]),
    "finish_jobs": lambda store: store.finish_jobs([completed(1, 1)]),
    "fail_refused": lambda store: store.fail_refused(completed(1, 1)),
    "save_progress": lambda store: store.save_progress([ProgressReport(1, 1, 50.0)]),
    "promote_jobs": lambda store: store.promote_jobs(10),
    "rescue_jobs": lambda store: store.rescue_jobs(10),
    "force_cancels": lambda store: store.force_cancels(0, 10),
    "keep_history": lambda store: store.keep_history(10),
    "measure_tables": lambda store: store.measure_tables(),
    "diagnose": lambda store: store.diagnose(),
    "prune_keys": lambda store: store.prune_keys(10),
    "read_rollups": lambda store: store.read_rollups(datetime.now(UTC)),
    "read_series": lambda store: store.read_series(datetime.now(UTC), 60),
    "fold_rollups": lambda store: store.fold_rollups(10),
    "measure_lanes": lambda store: store.measure_lanes(),
    "read_gauges": lambda store: store.read_gauges(),
    "operator_answers": lambda store: store.operator_answers(),
    "register_worker": lambda store: store.register_worker(WorkerProcess("test", "localhost", 1), 60_000),
    "renew_workers": lambda store: store.renew_workers([1], 60_000, {1: 2**20}),
    "retire_worker": lambda store: store.retire_worker(99),
    "release_worker": lambda store: store.release_worker(99, [completed(1, 1)]),
    "list_workers": lambda store: store.list_workers(),
    "drain_instance": lambda store: store.drain_instance("0a", None),
    "define_queues": lambda store: store.define_queues({"q": keeping(1_000, 1_000, 1_000, 1_000)}),
    "pause_queue": lambda store: store.pause_queue("q", actor=None, reason=None),
    "resume_queue": lambda store: store.resume_queue("q"),
    "list_queues": lambda store: store.list_queues(),
    "cancelled_claims": lambda store: store.cancelled_claims(1),
    "watch": lambda store: store.watch("test", 1_000),
    "unwatch": lambda store: store.unwatch("test"),
    "first_event": lambda store: store.first_event(0.1),
    "still_writing": lambda store: store.still_writing(["1/1"]),
    "read_events": lambda store: store.read_events(0, [], 10),
    "prune_events": lambda store: store.prune_events(10),
    "claim_deliveries": lambda store: store.claim_deliveries(1, 1_000),
    "end_delivery": lambda store: store.end_delivery(MESSAGE, "delivered", 0, "{}"),
    "postpone_delivery": lambda store: store.postpone_delivery(MESSAGE, 1_000),
    "next_delivery_ms": lambda store: store.next_delivery_ms(),
    "disable_endpoint": lambda store: store.disable_endpoint("https://example.org/", "gone"),
    "enable_endpoint": lambda store: store.enable_endpoint("https://example.org/"),
    "list_endpoints": lambda store: store.list_endpoints(),
    "prune_deliveries": lambda store: store.prune_deliveries(10),
    "define_escalations": lambda store: store.define_escalations(["ops"]),
    "fold_alarms": lambda store: store.fold_alarms({"ops": ["failed"]}, 10),
    "waiting_escalations": lambda store: store.waiting_escalations(["ops"], [], 10),
    "undigested": lambda store: store.undigested("ops", 10),
    "move_escalation": lambda store: store.move_escalation(ESCALATION, ESCALATION, []),
    "tell_together": lambda store: store.tell_together([ESCALATION], [], due_at=None),
    "ack_escalation": lambda store: store.ack_escalation(1, actor=None, note=None),
    "snooze_escalation": lambda store: store.snooze_escalation(1, until=None, delay_ms=1_000, actor=None),
    "get_escalation": lambda store: store.get_escalation(1),
    "list_escalations": lambda store: store.list_escalations(is_open=None, policy=None, limit=10, before=None),
    "prune_alarms": lambda store: store.prune_alarms(10),
    "claim_notices": lambda store: store.claim_notices(["chat"], 1, 1_000),
    "end_notice": lambda store: store.end_notice(NOTICE, "sent", 0, None),
    "next_notice_ms": lambda store: store.next_notice_ms(["chat"]),
    "take_lock": lambda store: store.take_lock(LockRequest("x", "a", "a", "here/1"), lasts_ms=1_000, waits_ms=1_000),
    "renew_locks": lambda store: store.renew_locks(["a"], 1_000),
    "renew_tickets": lambda store: store.renew_tickets(["a"], 1_000),
    "release_lock": lambda store: store.release_lock("x", "a"),
    "break_lock": lambda store: store.break_lock("x", 1),
    "free_locks": lambda store: store.free_locks(1, 1),
    "list_locks": lambda store: store.list_locks(10),
    "prune_locks": lambda store: store.prune_locks(10),
    "define_limits": lambda store: store.define_limits([LimitRow(name="l", queue="q", concurrency=1)], ["q"]),
    "list_limits": lambda store: store.list_limits(),
    "limit_usage": lambda store: store.limit_usage("l"),
    "limit_usages": lambda store: store.limit_usages(),
    "sweep_limits": lambda store: store.sweep_limits("", 10, leaks=True),
    "prune_limits": lambda store: store.prune_limits(10),
    "define_budgets": lambda store: store.define_budgets([BUDGET]),
    "read_budgets": lambda store: store.read_budgets(),
    "reserve_spend": lambda store: store.reserve_spend(Reservation(1, 1, "ai", "", 5, NOW, NOW, 0, 0)),
    "record_spend": lambda store: store.record_spend(SPEND),
    "settle_spend": lambda store: store.settle_spend(1, 1),
    "release_deferred": lambda store: store.release_deferred("ai", 10),
    "list_periods": lambda store: store.list_periods("ai", NOW, 10),
    "list_lost": lambda store: store.list_lost("ai", 10),
    "mean_spend": lambda store: store.mean_spend("ai", "work"),
    "spend_series": lambda store: store.spend_series("ai", "", NOW, NOW, 1_000),
    "break_down": lambda store: store.break_down("ai", "kind", NOW, NOW, 10),
    "read_ledger": lambda store: store.read_ledger("ai", 10),
    "prune_ledger": lambda store: store.prune_ledger(10),
    "claim_retention": lambda store: store.claim_retention(["q"], 1, 1_000),
    "kept_jobs": lambda store: store.kept_jobs([1]),
    "end_retention": lambda store: store.end_retention(DUE),
    "postpone_retention": lambda store: store.postpone_retention(DUE, 1_000, "it failed"),
    "fold_failures": lambda store: store.fold_failures(10),
    "list_dead_letters": lambda store: store.list_dead_letters(DeadFilter(), limit=10),
    "insert_replay": lambda store: store.insert_replay(new_job(1), 2, again=True),
    "prune_dead_letters": lambda store: store.prune_dead_letters(10),
    "preview_jobs": lambda store: store.preview_jobs(JobFilter()),
    "start_bulk": lambda store: store.start_bulk(
        NewBulk(key="k", verb=BulkVerb.DELETE, which=JobFilter(kinds=("none",)), expected=0)
    ),
    "next_bulk": lambda store: store.next_bulk(),
    "work_bulk": lambda store: store.work_bulk(RUN, [1], cursor=None),
    "fail_bulk": lambda store: store.fail_bulk(RUN, "no room", 1),
    "change_bulk": lambda store: store.change_bulk(1, BulkState.PAUSED),
    "list_bulk": lambda store: store.list_bulk(10),
    "prune_bulk": lambda store: store.prune_bulk(10),
    "mark_announced": lambda store: store.mark_announced([1]),
    "ready_lanes": lambda store: store.ready_lanes(),
    "unannounced_jobs": lambda store: store.unannounced_jobs("q", 5, 1_000, 10),
    "list_policies": lambda store: store.list_policies(),
    "define_policies": lambda store: store.define_policies([PolicyRow("limits.a", "{}")], ["limits.b"]),
    "mark_policies": lambda store: store.mark_policies("0a"),
    "list_kinds": lambda store: store.list_kinds(),
    "define_kinds": lambda store: store.define_kinds([KindRow(name="work", queue="q", definition="{}")]),
    "move_kind": lambda store: store.move_kind(KIND_MOVE, after=-1, limit=10),
    "define_queue_policies": lambda store: store.define_queue_policies({"q": "{}"}, ["q"]),
    "list_queue_policies": lambda store: store.list_queue_policies(),
    "note_policies": lambda store: store.note_policies(1, "{}"),
    "worker_policies": lambda store: store.worker_policies(),
    "define_schedules": lambda store: store.define_schedules({"nightly": '{"kind": "work"}'}, ["work"]),
    "store_schedule": lambda store: store.store_schedule("stored", '{"kind": "work"}', actor=None),
    "change_schedule": lambda store: store.change_schedule("nightly", "{}", moves=True, actor=None),
    "drop_schedule": lambda store: store.drop_schedule("stored"),
    "read_schedules": lambda store: store.read_schedules(),
    "fire_schedule": lambda store: store.fire_schedule("nightly", 1, [FIRE], overlap="skip", next_fire=None),
    "list_fires": lambda store: store.list_fires("nightly", 10),
    "prune_fires": lambda store: store.prune_fires(10),
    "set_override": lambda store: store.set_override("services.rollups.batch", "5", actor=None, reason=None),
    "reset_override": lambda store: store.reset_override("services.rollups.batch"),
    "list_overrides": lambda store: store.list_overrides("services."),
    "report_services": lambda store: store.report_services([ServiceReport("rollups", "a", None, 1, 0, 0, 0, 0)]),
    "list_services": lambda store: store.list_services(),
    "lead": lambda store: store.lead("upkeep", "a", None, 1_000),
    "resign": lambda store: store.resign("upkeep", "a", 1),
    "list_leaders": lambda store: store.list_leaders(),
    "lane_heads": lambda store: store.lane_heads(["q"]),
    "queue_policies": lambda store: store.queue_policies(),
    "read_waits": lambda store: store.read_waits(["q"], 1_000),
    "look_at_waits": lambda store: store.look_at_waits([LOOK]),
    "tell_breach": lambda store: store.tell_breach(WAITS, ALARM),
    "list_waits": lambda store: store.list_waits(),
    "report_tunings": lambda store: store.report_tunings("i", [TUNING]),
    "list_tunings": lambda store: store.list_tunings(),
    "prune_tunings": lambda store: store.prune_tunings(10),
    "explain_job": lambda store: store.explain_job(1),
    "add_token": lambda store: store.add_token(
        NewToken(
            kind="token",
            name="me",
            digest=token_hex(32),
            hint="h",
            role="admin",
            queues=None,
            created_by="me",
            lasts_ms=None,
        )
    ),
    "find_token": lambda store: store.find_token("d"),
    "use_link": lambda store: store.use_link("d"),
    "has_token": lambda store: store.has_token(),
    "list_tokens": lambda store: store.list_tokens("token"),
    "revoke_token": lambda store: store.revoke_token(1, actor="me"),
    "add_audit": lambda store: store.add_audit(DEED),
    "list_audit": lambda store: store.list_audit(AuditFilter(), limit=10),
    "prune_access": lambda store: store.prune_access(10),
    "announce": lambda store: store.announce(["q"]),
    "read_move": lambda store: store.read_move(),
    "mark_move": lambda store: store.mark_move(MOVE),
    "unmark_move": lambda store: store.unmark_move(),
    "read_tags": lambda store: store.read_tags(),
    "change_tag": lambda store: store.change_tag(1),
    "last_numbers": lambda store: store.last_numbers(),
    "read_page": lambda store: store.read_page(JOBS, None),
    "same_rows": lambda store: store.same_rows(JOBS, [{"id": 1}]),
    "take_progress": lambda store: store.take_progress(PROGRESS),
    "take_numbers": lambda store: store.take_numbers({"escalations": 1}, PROGRESS),
    "put_rows": lambda store: store.put_rows(PARTS[3], [{"job_id": 1, "name": "a", "word": "b"}], PROGRESS),
    "release_jobs": lambda store: store.release_jobs([Release(1, "queued", None)], PROGRESS),
    "move_progress": lambda store: store.move_progress(),
    "end_progress": lambda store: store.end_progress("0a"),
    "drop_copies": lambda store: store.drop_copies(PROGRESS),
}


def verb_names() -> set[str]:
    """Read the names of all verbs from the protocols; to listen is no call, see test_wakeups.py."""
    return {name for role in ROLES for name in vars(role) if not name.startswith("_")} - {"listen"}
