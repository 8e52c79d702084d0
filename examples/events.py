"""Watch a job while it runs: another task of the program hears of everything that happens to it."""

import asyncio

from holdfast import Context, EventType, Holdfast, JobHandle, Pipeline, phase

app = Holdfast("sqlite://")


@app.task
class Transcode(Pipeline):
    """Two phases, of which the second is three times as much work."""

    url: str

    @phase
    async def download(self, ctx: Context) -> str:
        """Say how far it is, a few times."""
        for percent in (25, 50, 75):
            await ctx.progress(percent, f"{percent} MB")
            await asyncio.sleep(0.15)
        return "film.mp4"

    @phase(weight=3)
    async def encode(self, ctx: Context) -> str:
        """Work with what the first phase returned."""
        await ctx.progress(50, ctx.result("download"))
        await asyncio.sleep(0.15)
        return "film.webm"


async def follow(job: JobHandle[object]) -> None:
    """Print the job's progress to its end."""
    async for event in job.watch():
        if event.type is EventType.PROGRESS:
            said = event.data
            print(f"{said['percent']:3.0f} %  {said['phase']}  {said.get('message', '')}".rstrip())
        else:
            print(f"{event.type} {event.data.get('phase', '')}".rstrip())


async def main() -> None:
    """Watch before anybody works, so that nothing is missed."""
    async with app:
        job = await Transcode(url="https://example.org/film.mp4").enqueue()
        async with asyncio.TaskGroup() as group:
            group.create_task(follow(job))
            stop = asyncio.Event()
            worker = group.create_task(app.run_worker(stop=stop))
            print("result:", await job.result(timeout="20s"))
            stop.set()
            await worker


if __name__ == "__main__":
    asyncio.run(main())
