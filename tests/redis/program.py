"""The app that worker processes run with delivery by Redis; `REDIS_TEST_HOLES` names a guard to be removed."""

import asyncio
import os

from holdfast import Context, Holdfast, WorkerSettings
from holdfast.cadence import Service
from holdfast.shards import RedisDelivery, Shard
from holdfast.worker.promoter import Promoter
from tests.support.ledger_app import note, write_effect

ENV = os.environ
HOLES = ENV.get("REDIS_TEST_HOLES", "").split()


def delivery_of(high: str, low: str) -> RedisDelivery:
    """Give the usual two bands."""
    return RedisDelivery([Shard("high", high, (0, 4), 4), Shard("low", low, (5, 10))])


def make_app(url: str, schema: str, high: str, low: str) -> Holdfast:
    """Make the app, for workers and for those who enqueue."""
    app = Holdfast(
        url,
        schema=schema,
        delivery=delivery_of(high, low),
        worker=WorkerSettings(lease="10s", shutdown_grace="10s", poll=ENV.get("REDIS_TEST_POLL", "1s")),
        services={"announcements": Service(enabled="sweep" not in HOLES)},
    )

    @app.task
    async def effect(ctx: Context, ms: int) -> int:
        """Work a while, then write a row in the transaction that completes the job."""
        note("begin", ctx)
        await asyncio.sleep(ms / 1_000)
        async with ctx.transaction() as tx:
            await write_effect(tx.connection, ctx)
            tx.result = ms
        note("end", ctx)
        return ms

    @app.task
    async def stall(ctx: Context) -> None:
        """Stand still, unless somebody was killed for it."""
        note("begin", ctx)
        if ctx.job.claim == 1:
            await asyncio.Event().wait()

    return app


if "backstop" in HOLES:
    Promoter._look_at_lanes = lambda self: None  # type: ignore[method-assign] # which is the hole

app = make_app(
    ENV.get("CHAOS_URL", "sqlite://"),
    ENV.get("CHAOS_SCHEMA", "holdfast"),
    ENV.get("REDIS_TEST_HIGH", "redis://127.0.0.1:1/0"),
    ENV.get("REDIS_TEST_LOW", "redis://127.0.0.1:1/0"),
)
