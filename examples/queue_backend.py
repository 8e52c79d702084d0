"""A service that does not know its queue, and a test of it without any server."""

import asyncio

from holdfast import Holdfast, InlineQueueBackend, QueueBackend

app = Holdfast("sqlite://")


@app.task(kind="build_processing")
async def process(build: int) -> str:
    """Do the work of one build."""
    return f"build {build} is published"


class BuildService:
    """Knows what is to be done, and nothing of the queue that does it."""

    def __init__(self, queue: QueueBackend) -> None:
        self._queue = queue

    async def upload(self, build: int) -> str | None:
        """Let a build be processed in the background."""
        return await self._queue.enqueue("build_processing", {"build": build})

    async def status(self, job: str) -> str:
        """Say how far a build is."""
        found = await self._queue.get_job_metadata(job)
        return "unknown" if found is None else str(found["status"])


async def main() -> None:
    """Test the service; in production it would get `app.queue_backend`."""
    async with app:
        queue = InlineQueueBackend(app=app)
        service = BuildService(queue)
        job = await service.upload(7) or ""
        print("before:", await service.status(job))
        await queue.run_pending()
        print("after:", await service.status(job))
        print("result:", await queue.get_job_result(job))
        print("another:", await service.status("htcx-2s16-z48b-09"))


if __name__ == "__main__":
    asyncio.run(main())
