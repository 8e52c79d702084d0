"""Kinds of jobs as the API shows them."""

from typing import Any

import msgspec
from pydantic import Field

from holdfast.server.api.shape import Shape
from holdfast.stores.policies import KindRow


class KindShape(Shape):
    """One kind of job, with what holds for its jobs; `arguments` is a JSON Schema (2020-12)."""

    kind: str = Field(examples=["send_email"])
    queue: str = Field(examples=["default"])
    handler: str | None = Field(None, examples=["shop.mail.send_email"])
    aliases: list[str] = Field(examples=[["mail"]])
    note: str | None = Field(None, examples=["sends one mail"])
    cadence: list[str] = Field(examples=[["every 5 min"]], description="When its schedules fire, in words.")
    priority: int | None = Field(None, examples=[5])
    max_attempts: int | None = Field(None, examples=[5])
    max_crashes: int | None = Field(None, examples=[3])
    timeout_ms: int | None = Field(None, examples=[300_000], description="null: no limit.")
    retry: dict[str, Any] = Field(examples=[{"first": 1.0}], description="How long a failed attempt waits.")
    phases: list[str] = Field(examples=[["download", "import"]])
    limits: list[str] = Field(examples=[["tenant"]])
    budget: str | None = Field(None, examples=["ai"])
    estimate: str | None = Field(None, examples=["$0.02"])
    debounce_ms: int | None = Field(None, examples=[5_000])
    debounce_key: str | None = Field(None, examples=["customer"])
    queue_override: bool = Field(examples=[False], description="Whether callers may choose the queue.")
    arguments: dict[str, Any] = Field(
        examples=[{"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}]
    )


class KindList(Shape):
    """All kinds whose queue the asker may see, by name."""

    kinds: list[KindShape]


def kind_shape(row: KindRow) -> KindShape:
    """Show a kind."""
    told: dict[str, Any] = msgspec.json.decode(row.definition)
    same = ("handler", "note", "priority", "max_attempts", "max_crashes", "timeout_ms", "budget", "estimate")
    known: dict[str, Any] = {name: told.get(name) for name in (*same, "debounce_ms", "debounce_key")}
    known |= {name: told.get(name, ()) for name in ("aliases", "cadence", "limits")}
    return KindShape(
        kind=row.name,
        queue=row.queue,
        **known,
        phases=[name for name, _ in told.get("phases", ())],
        retry=told.get("retry", {}),
        queue_override=bool(told.get("queue_override")),
        arguments=told.get("arguments", {}),
    )
