"""An app whose jobs tell a receiver on this machine how they ended."""

import os

from holdfast import Holdfast, WebhookSettings, WorkerSettings

app = Holdfast(
    os.environ.get("CHAOS_URL", "sqlite://"),
    schema=os.environ.get("CHAOS_SCHEMA", "holdfast"),
    worker=WorkerSettings(concurrency=4, shutdown_grace="5s"),
    webhooks=WebhookSettings(secret=os.environ.get("CHAOS_SECRET"), allow=["127.0.0.1"], deadline="20s"),
)


@app.task
async def told(number: int) -> int:
    """End at once."""
    return number
