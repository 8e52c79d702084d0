"""A kind of job, as the client, the HTTP API, the command line and the dashboard show it."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from holdfast.about import About, about
from holdfast.policies.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class KindInfo:
    """A kind of job: its handler, what holds for its jobs, and which arguments they take."""

    name: Annotated[str, About("Name of the task, as its jobs have it.", "send_email")]
    queue: Annotated[str, about(Kind, "queue")]
    handler: Annotated[str | None, About("The function or class that runs it.", "shop.mail.send_email")] = None
    aliases: Annotated[list[str], About("Former names, under which its jobs may still be stored.", ["mail"])] = field(
        default_factory=list
    )
    note: Annotated[str | None, about(Kind, "note")] = None
    cadence: Annotated[list[str], About("When its schedules fire, in words.", ["every 5 min"])] = field(
        default_factory=list
    )
    priority: Annotated[int | None, About("Priority of its jobs: 0 goes first, 10 last.", 5)] = None
    max_attempts: Annotated[int | None, about(Kind, "max_attempts")] = None
    max_crashes: Annotated[int | None, About("How many crashes of its worker a job survives.", 3)] = None
    timeout_ms: Annotated[int | None, about(Kind, "timeout", 300_000)] = None
    retry: Annotated[dict[str, Any], about(Kind, "retry", {"first": 1.0})] = field(default_factory=dict)
    phases: Annotated[list[str], About("The phases of a pipeline.", ["download", "import"])] = field(
        default_factory=list
    )
    limits: Annotated[list[str], about(Kind, "limits")] = field(default_factory=list)
    budget: Annotated[str | None, about(Kind, "budget")] = None
    estimate: Annotated[str | None, about(Kind, "estimate")] = None
    debounce_ms: Annotated[int | None, about(Kind, "debounce", 5_000)] = None
    debounce_key: Annotated[str | None, about(Kind, "debounce_key")] = None
    queue_override: Annotated[bool, About("Whether callers may choose the queue.", example=False)] = False
    args_schema: Annotated[
        dict[str, Any],
        About(
            "JSON Schema (2020-12) of the arguments of its jobs.",
            {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
        ),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindList:
    """All kinds whose queue the caller may see, by name."""

    kinds: list[KindInfo]
