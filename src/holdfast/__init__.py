"""Background jobs that are never lost: from one SQLite file to PostgreSQL by one URL."""

from holdfast.app import Holdfast
from holdfast.client.blocking import BlockingClient, BlockingHandle
from holdfast.config import Queue, WorkerSettings
from holdfast.context import Context
from holdfast.errors import (
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
    NotOpen,
    OutcomeUnknown,
    ResultTimeout,
    SchemaError,
    StoreError,
    StoreUnavailable,
    TimedOut,
    TransactionTooLong,
    UniqueConflict,
    UnknownKind,
    WrongState,
)
from holdfast.handle import JobHandle
from holdfast.job import Attempt, Job, JobState, Progress
from holdfast.outcomes import Cancel, Fatal, Retry, Skip, Snooze
from holdfast.release import RELEASE
from holdfast.retry import Backoff, backoff
from holdfast.stores.values import Answer, Answered, Count, Cursor, JobFilter, Page, QueueRow
from holdfast.tasks.call import Call
from holdfast.tasks.pipeline import Pipeline, phase
from holdfast.tasks.task import Task

__version__ = RELEASE

__all__ = [
    "Answer",
    "Answered",
    "ArgumentError",
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
    "DuplicateKind",
    "Fatal",
    "Holdfast",
    "HoldfastError",
    "InvalidValue",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "JobNotFound",
    "JobState",
    "KeyConflict",
    "NotOpen",
    "OutcomeUnknown",
    "Page",
    "Pipeline",
    "Progress",
    "Queue",
    "QueueRow",
    "ResultTimeout",
    "Retry",
    "SchemaError",
    "Skip",
    "Snooze",
    "StoreError",
    "StoreUnavailable",
    "Task",
    "TimedOut",
    "TransactionTooLong",
    "UniqueConflict",
    "UnknownKind",
    "WorkerSettings",
    "WrongState",
    "__version__",
    "backoff",
    "phase",
]
