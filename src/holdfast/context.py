"""What a running handler is given, when its first parameter asks for it."""

from dataclasses import dataclass

from holdfast.job import Job


@dataclass(frozen=True, slots=True)
class Context:
    """The job that a handler works on; a first parameter annotated `Context` is no part of the payload."""

    job: Job
