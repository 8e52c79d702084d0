"""Background jobs that are never lost: from one SQLite file to PostgreSQL by one URL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.app import Holdfast
from holdfast.arq_delivery import ArqDelivery
from holdfast.backends.backend import QueueBackend
from holdfast.backends.inline import InlineQueueBackend
from holdfast.backends.jobs import HoldfastQueueBackend
from holdfast.cadence import Service
from holdfast.client.subscription import EventsMissed, Subscription
from holdfast.context import Context
from holdfast.election import RedisElection
from holdfast.errors import (
    AllItemsFailed,
    ArgumentError,
    BudgetNotFound,
    BulkNotFound,
    ClaimLost,
    ConfigError,
    Conflict,
    DataRefused,
    DeadLetterNotFound,
    DuplicateKind,
    EndpointNotFound,
    EscalationNotFound,
    HoldfastError,
    InvalidConfig,
    InvalidFilter,
    InvalidValue,
    JobCancelled,
    JobFailed,
    JobNotFound,
    KeyConflict,
    LimitNotFound,
    LockCycle,
    LockLost,
    LockNotFound,
    LockTimeout,
    NotOpen,
    OutcomeUnknown,
    QueueNotFound,
    RateLimited,
    ResultTimeout,
    ScheduleNotFound,
    SchemaError,
    ShutdownTimeout,
    StoreError,
    StoreMoved,
    StoreUnavailable,
    TimedOut,
    TokenNotFound,
    TransactionTooLong,
    UniqueConflict,
    UnknownKind,
    WorkerNotFound,
    WrongState,
)
from holdfast.events import EventType
from holdfast.handle import JobHandle
from holdfast.items import ItemCounts, Items
from holdfast.job import Answer, JobState
from holdfast.lock import Lock
from holdfast.outcomes import BudgetExceeded, Cancel, Fatal, Retry, Skip, Snooze, Throttle
from holdfast.phases import PhaseState
from holdfast.phasing import PhaseBlock
from holdfast.policies.allowance import Allowance
from holdfast.policies.budgets import Budget
from holdfast.policies.channels import Email, PagerDuty, SignedWebhook, Slack
from holdfast.policies.escalation import BusinessHours, Escalation
from holdfast.policies.kinds import Kind
from holdfast.policies.limits import Limit
from holdfast.queues import Queue
from holdfast.release import RELEASE
from holdfast.retry import Backoff, backoff
from holdfast.schedules import Schedule
from holdfast.server.principal import Principal
from holdfast.server.roles import Role
from holdfast.server.settings import ServerSettings
from holdfast.shards import RedisDelivery, Shard
from holdfast.stores.values import JobFilter
from holdfast.stream import EventResponse, EventStream
from holdfast.tasks.call import Call
from holdfast.tasks.pipeline import Pipeline, phase
from holdfast.tasks.task import Task
from holdfast.telemetry.settings import TelemetrySettings
from holdfast.webhooks.settings import WebhookSettings
from holdfast.why import Reason
from holdfast.worker_settings import WorkerSettings

if TYPE_CHECKING:  # at run time, `__getattr__` imports these
    from holdfast.client.blocking import BlockingClient, BlockingHandle
    from holdfast.resources.audit import AuditEntry, AuditPage
    from holdfast.resources.budget import BudgetInfo, LedgerEntry, LedgerPage, LostSpend, SpendPart
    from holdfast.resources.bulk import BulkOperation, BulkState, BulkVerb
    from holdfast.resources.dead_letter import DeadLetter, DeadLetterGroup, DeadLetterGroupPage
    from holdfast.resources.escalation import (
        ChannelTest,
        EscalationDetail,
        EscalationInfo,
        EscalationNotice,
        EscalationPage,
        PolicyTest,
    )
    from holdfast.resources.event import Event
    from holdfast.resources.job import (
        Attempt,
        EnqueuedJob,
        ItemSet,
        Job,
        JobPage,
        JobPhase,
        JobSummary,
        Progress,
    )
    from holdfast.resources.job_parts import JobAnswer, JobItem, LogLine, StateChange, Why
    from holdfast.resources.kind import KindInfo
    from holdfast.resources.limit import LimitInfo, LimitKey, SlotHolder
    from holdfast.resources.lock import LockInfo
    from holdfast.resources.queue import JobCount, QueueInfo, Tuning
    from holdfast.resources.schedule import (
        DateRange,
        MaintenanceWindow,
        ScheduleFire,
        ScheduleInfo,
    )
    from holdfast.resources.service import Leader, ServiceInfo
    from holdfast.resources.setting import Setting, SettingList
    from holdfast.resources.stats import Stats
    from holdfast.resources.token import CreatedToken, Token
    from holdfast.resources.webhook import Delivery, DeliveryTry, Endpoint
    from holdfast.resources.worker import WorkerInfo

__version__ = RELEASE

__all__ = [
    "AllItemsFailed",
    "Allowance",
    "Answer",
    "ArgumentError",
    "ArqDelivery",
    "Attempt",
    "AuditEntry",
    "AuditPage",
    "Backoff",
    "BlockingClient",
    "BlockingHandle",
    "Budget",
    "BudgetExceeded",
    "BudgetInfo",
    "BudgetNotFound",
    "BulkNotFound",
    "BulkOperation",
    "BulkState",
    "BulkVerb",
    "BusinessHours",
    "Call",
    "Cancel",
    "ChannelTest",
    "ClaimLost",
    "ConfigError",
    "Conflict",
    "Context",
    "CreatedToken",
    "DataRefused",
    "DateRange",
    "DeadLetter",
    "DeadLetterGroup",
    "DeadLetterGroupPage",
    "DeadLetterNotFound",
    "Delivery",
    "DeliveryTry",
    "DuplicateKind",
    "Email",
    "Endpoint",
    "EndpointNotFound",
    "EnqueuedJob",
    "Escalation",
    "EscalationDetail",
    "EscalationInfo",
    "EscalationNotFound",
    "EscalationNotice",
    "EscalationPage",
    "Event",
    "EventResponse",
    "EventStream",
    "EventType",
    "EventsMissed",
    "Fatal",
    "Holdfast",
    "HoldfastError",
    "HoldfastQueueBackend",
    "InlineQueueBackend",
    "InvalidConfig",
    "InvalidFilter",
    "InvalidValue",
    "ItemCounts",
    "ItemSet",
    "Items",
    "Job",
    "JobAnswer",
    "JobCancelled",
    "JobCount",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "JobItem",
    "JobNotFound",
    "JobPage",
    "JobPhase",
    "JobState",
    "JobSummary",
    "KeyConflict",
    "Kind",
    "KindInfo",
    "Leader",
    "LedgerEntry",
    "LedgerPage",
    "Limit",
    "LimitInfo",
    "LimitKey",
    "LimitNotFound",
    "Lock",
    "LockCycle",
    "LockInfo",
    "LockLost",
    "LockNotFound",
    "LockTimeout",
    "LogLine",
    "LostSpend",
    "MaintenanceWindow",
    "NotOpen",
    "OutcomeUnknown",
    "PagerDuty",
    "PhaseBlock",
    "PhaseState",
    "Pipeline",
    "PolicyTest",
    "Principal",
    "Progress",
    "Queue",
    "QueueBackend",
    "QueueInfo",
    "QueueNotFound",
    "RateLimited",
    "Reason",
    "RedisDelivery",
    "RedisElection",
    "ResultTimeout",
    "Retry",
    "Role",
    "Schedule",
    "ScheduleFire",
    "ScheduleInfo",
    "ScheduleNotFound",
    "SchemaError",
    "ServerSettings",
    "Service",
    "ServiceInfo",
    "Setting",
    "SettingList",
    "Shard",
    "ShutdownTimeout",
    "SignedWebhook",
    "Skip",
    "Slack",
    "SlotHolder",
    "Snooze",
    "SpendPart",
    "StateChange",
    "Stats",
    "StoreError",
    "StoreMoved",
    "StoreUnavailable",
    "Subscription",
    "Task",
    "TelemetrySettings",
    "Throttle",
    "TimedOut",
    "Token",
    "TokenNotFound",
    "TransactionTooLong",
    "Tuning",
    "UniqueConflict",
    "UnknownKind",
    "WebhookSettings",
    "Why",
    "WorkerInfo",
    "WorkerNotFound",
    "WorkerSettings",
    "WrongState",
    "__version__",
    "backoff",
    "phase",
]

_LATE = (
    "holdfast.client.blocking",
    "holdfast.resources.audit",
    "holdfast.resources.budget",
    "holdfast.resources.bulk",
    "holdfast.resources.dead_letter",
    "holdfast.resources.escalation",
    "holdfast.resources.event",
    "holdfast.resources.job",
    "holdfast.resources.job_parts",
    "holdfast.resources.kind",
    "holdfast.resources.limit",
    "holdfast.resources.lock",
    "holdfast.resources.queue",
    "holdfast.resources.schedule",
    "holdfast.resources.service",
    "holdfast.resources.setting",
    "holdfast.resources.stats",
    "holdfast.resources.token",
    "holdfast.resources.webhook",
    "holdfast.resources.worker",
)


def __getattr__(name: str) -> Any:
    """Import the resource types when a program names the first one: they are a quarter of the time of an import."""
    if name in __all__:
        for module in map(import_module, _LATE):
            if hasattr(module, name):
                return globals().setdefault(name, getattr(module, name))
    message = f"module 'holdfast' has no attribute {name!r}"
    raise AttributeError(message)
