"""Ready sets of queues to start from; change what differs, in code with `dataclasses.replace` or in the file."""

from collections.abc import Mapping

from holdfast.queues import Queue

FIVE_QUEUES: tuple[Queue, ...] = (
    Queue("high", priority=0, colour="salmon", workers=20, sla="30s", poll="5s", description="what people wait for"),
    Queue("default", priority=5, colour="blue", workers=10, sla="5m", poll="10s", description="everyday work"),
    Queue("screenshot", priority=6, colour="lavender", workers=3, sla="2m", poll="10s", description="browsers"),
    Queue("low", priority=7, colour="green", workers=5, sla="30m", poll="30s", description="what may wait a while"),
    Queue("bulk", priority=8, colour="yellow", workers=8, poll="60s", description="large amounts, best effort"),
)
"""Five families of queues; none has an escalation, for that needs channels of one's own."""

PRESETS: Mapping[str, tuple[Queue, ...]] = {"five": FIVE_QUEUES}
"""The sets by the name that `queues: {preset: ...}` knows them by."""
