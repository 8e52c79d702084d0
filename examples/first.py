"""Define a task, store a job in a SQLite file, look at it."""

import asyncio

from holdfast import Holdfast

app = Holdfast("sqlite:///jobs.db")


@app.task
async def send_email(to: str, subject: str) -> str:
    """Stand for real work; a worker will call it."""
    return f"sent {subject!r} to {to}"


async def main() -> None:
    """Enqueue one job and read it back."""
    async with app:
        handle = await send_email.enqueue(to="ada@example.org", subject="Welcome")
        job = await handle.get()
        print(job.public_id, job.kind, job.state, job.payload)


if __name__ == "__main__":
    asyncio.run(main())
