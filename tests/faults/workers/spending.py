"""The app whose handlers spend money, and write down what they asked for and what was acknowledged."""

import os

from holdfast import Budget, Context, Holdfast
from tests.support import ledger_app as work

app = Holdfast(
    work.app.config.url,
    schema=work.app.config.schema,
    retry=work.app.config.retry,
    worker=work.app.config.worker,
    budgets=[Budget(name="ai", amount=os.environ.get("CHAOS_BUDGET", "$1000"), period="month")],
)


@app.task(budget="ai", estimate="$3", max_attempts=100)
async def pay(ctx: Context, cents: list[int]) -> int:
    """Spend amounts one after the other, at most three dollars in all."""
    work.note("begin", ctx)
    for n, amount in enumerate(cents, 1):
        work.note(f"asked:{n}:{amount}", ctx)
        await ctx.spend(amount / 100)
        work.note(f"paid:{n}:{amount}", ctx)
        await work.work_for(5)
    work.note("end", ctx)
    return sum(cents)
