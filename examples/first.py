"""A task in a SQLite file; `holdfast -A examples.first:app worker` runs its jobs."""

import asyncio

from holdfast import Context, Holdfast

app = Holdfast("sqlite:///jobs.db")


@app.task
async def count(ctx: Context, upto: int) -> str:
    """Stand for real work."""
    for number in range(upto):
        await ctx.progress(100 * number / upto, f"at {number}")
        await asyncio.sleep(1)
    return f"counted to {upto}"
