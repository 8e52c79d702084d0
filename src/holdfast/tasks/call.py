"""A request to run a task, as a value: checked and encoded, not yet sent."""

from typing import Any, Generic, Protocol, TypeVar

import msgspec

from holdfast.handle import JobHandle
from holdfast.tasks.options import Options, Policy

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Call(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """One job to be: what runs, with which arguments, under which options."""

    kind: str
    queue: str
    args_json: str
    policy: Policy
    options: Options
    result_type: Any = Any


class Enqueuer(Protocol):
    """What a task needs from its app."""

    async def enqueue(self, call: Call[R]) -> JobHandle[R]:
        """Store one job; when this returns, it is on disk."""
