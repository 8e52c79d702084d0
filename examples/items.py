"""Work through many things side by side: one is skipped, one fails, and a retry runs only that one again."""

import asyncio

from holdfast import Context, Holdfast, Job, Skip

app = Holdfast("sqlite://")
calls: list[str] = []


@app.task
async def update_editions(ctx: Context, project: str, slugs: list[str]) -> str:
    """Update every edition of a project."""

    async def update(slug: str) -> None:
        calls.append(slug)
        if slug == "v1":
            message = "frozen"
            raise Skip(message)
        if slug == "main" and ctx.job.run == 1:
            message = f"the build of {project} is missing"
            raise LookupError(message)

    async with ctx.items("editions", slugs, concurrency=2) as items:
        counts = await items.each(update)
    return f"{counts.completed} completed, {counts.skipped} skipped, {counts.failed} failed"


async def show(job: Job) -> None:
    """Print what readers of the job see."""
    print(f"{job.state}: {job.result}")
    for item in await app.jobs.items(job.id):
        if item.note is not None:
            print(f"  {item.state}: {item.key}, {item.note}")


async def main() -> None:
    """Run the job, and retry what failed."""
    async with app:
        handle = await update_editions.enqueue("docs", ["v1", "v2", "main", "usage"])
        await app.run_worker(until="empty")
        await show(await handle.get())

        calls.clear()
        await handle.retry()
        await app.run_worker(until="empty")
        await show(await handle.get())
        print("the second run called:", calls)


if __name__ == "__main__":
    asyncio.run(main())
