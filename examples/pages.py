"""List jobs page by page, cancel some of them, and start one over."""

import asyncio

from holdfast import Answer, Holdfast, JobFilter, JobState, WrongState

app = Holdfast("sqlite://")


@app.task(queue="imports")
def import_row(number: int) -> None:
    """Stand for real work."""


async def main() -> None:
    """Walk through 25 jobs in pages of ten."""
    async with app:
        tagged = import_row.using(tags={"file": "march.csv"})
        await app.enqueue_many(tagged.call(number) for number in range(25))

        which = JobFilter(queues=("imports",), tags=(("file", "march.csv"),))
        page = await app.jobs.list(which, limit=10)
        while True:
            print("page:", [job.args["number"] for job in page.jobs])
            if page.next is None:
                break
            page = await app.jobs.list(which, limit=10, after=page.next)

        newest = [job.id for job in (await app.jobs.list(which, limit=3)).jobs]
        answers = await app.jobs.cancel_many(newest, actor="ada", reason="wrong file")
        print("cancelled:", sum(answer.answer is Answer.DONE for answer in answers))

        cancelled = JobFilter(states=(JobState.CANCELLED,))
        found = [job async for job in app.jobs.iterate(cancelled)]
        print("found:", len(found), "cancelled by", found[0].cancelled_by)

        retried = await app.jobs.retry(found[0].id)
        print("retried:", retried.state, "in run", retried.run)
        try:
            await app.jobs.delete(found[0].id)
        except WrongState as error:
            print("refused:", str(error).partition(": ")[2])
        await app.jobs.delete(found[1].id)
        print("left:", len((await app.jobs.list(cancelled)).jobs), "cancelled")


if __name__ == "__main__":
    asyncio.run(main())
