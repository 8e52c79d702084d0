"""Background jobs that are never lost: from one SQLite file to PostgreSQL by one URL."""

from holdfast.app import Holdfast
from holdfast.arq_delivery import ArqDelivery
from holdfast.backends.backend import QueueBackend
from holdfast.backends.inline import InlineQueueBackend
from holdfast.backends.jobs import HoldfastQueueBackend
from holdfast.cadence import Service
from holdfast.client.blocking import BlockingClient, BlockingHandle
from holdfast.client.subscription import EventsMissed, Subscription
from holdfast.config import Queue, WorkerSettings
from holdfast.context import Context
from holdfast.election import RedisElection
from holdfast.errors import (
    AllItemsFailed,
    ArgumentError,
    ClaimLost,
    ConfigError,
    Conflict,
    DataRefused,
    DuplicateKind,
    HoldfastError,
    InvalidValue,
    JobCancelled,
    JobFailed,
    JobNotFound,
    KeyConflict,
    LockCycle,
    LockLost,
    LockTimeout,
    NotOpen,
    OutcomeUnknown,
    ResultTimeout,
    ScheduleNotFound,
    SchemaError,
    ShutdownTimeout,
    StoreError,
    StoreMoved,
    StoreUnavailable,
    TimedOut,
    TransactionTooLong,
    UniqueConflict,
    UnknownKind,
    WrongState,
)
from holdfast.events import Event, EventKind
from holdfast.handle import JobHandle
from holdfast.items import ItemCounts, Items
from holdfast.job import Attempt, Delivery, Job, JobState, LogLine, Progress, StateChange
from holdfast.lock import Lock
from holdfast.outcomes import Cancel, Fatal, Retry, Skip, Snooze
from holdfast.phases import JobPhase, PhaseState
from holdfast.phasing import PhaseBlock
from holdfast.release import RELEASE
from holdfast.retry import Backoff, backoff
from holdfast.schedules import Schedule
from holdfast.shards import RedisDelivery, Shard
from holdfast.stores.cluster import LockRow
from holdfast.stores.values import Answer, Answered, Count, Cursor, Endpoint, JobFilter, Page, QueueRow
from holdfast.stream import EventResponse, EventStream
from holdfast.tasks.call import Call
from holdfast.tasks.pipeline import Pipeline, phase
from holdfast.tasks.task import Task
from holdfast.webhooks.settings import WebhookSettings

__version__ = RELEASE

__all__ = [
    "AllItemsFailed",
    "Answer",
    "Answered",
    "ArgumentError",
    "ArqDelivery",
    "Attempt",
    "Backoff",
    "BlockingClient",
    "BlockingHandle",
    "Call",
    "Cancel",
    "ClaimLost",
    "ConfigError",
    "Conflict",
    "Context",
    "Count",
    "Cursor",
    "DataRefused",
    "Delivery",
    "DuplicateKind",
    "Endpoint",
    "Event",
    "EventKind",
    "EventResponse",
    "EventStream",
    "EventsMissed",
    "Fatal",
    "Holdfast",
    "HoldfastError",
    "HoldfastQueueBackend",
    "InlineQueueBackend",
    "InvalidValue",
    "ItemCounts",
    "Items",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "JobNotFound",
    "JobPhase",
    "JobState",
    "KeyConflict",
    "Lock",
    "LockCycle",
    "LockLost",
    "LockRow",
    "LockTimeout",
    "LogLine",
    "NotOpen",
    "OutcomeUnknown",
    "Page",
    "PhaseBlock",
    "PhaseState",
    "Pipeline",
    "Progress",
    "Queue",
    "QueueBackend",
    "QueueRow",
    "RedisDelivery",
    "RedisElection",
    "ResultTimeout",
    "Retry",
    "Schedule",
    "ScheduleNotFound",
    "SchemaError",
    "Service",
    "Shard",
    "ShutdownTimeout",
    "Skip",
    "Snooze",
    "StateChange",
    "StoreError",
    "StoreMoved",
    "StoreUnavailable",
    "Subscription",
    "Task",
    "TimedOut",
    "TransactionTooLong",
    "UniqueConflict",
    "UnknownKind",
    "WebhookSettings",
    "WorkerSettings",
    "WrongState",
    "__version__",
    "backoff",
    "phase",
]
