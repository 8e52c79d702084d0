"""Say when, how urgent and how unique a job is: `using(...)`, one option after the other."""

import asyncio

from holdfast import Holdfast, JobHandle, KeyConflict, Queue

app = Holdfast("sqlite://", queues=[Queue("reports", priority=8)])


@app.task(queue="reports", max_attempts=3, timeout="10m")
def build_report(customer: int) -> str:
    """Stand for slow work."""
    return f"report of customer {customer}"


async def show(what: str, handle: JobHandle[str]) -> None:
    """Print what the store keeps."""
    job = await handle.get()
    seconds = round((job.run_at - job.enqueued_at).total_seconds())
    age = "new" if handle.created else "old"
    print(f"{what:<10} {job.state:<9} priority {job.priority}, due in {seconds} s, {age}")


async def main() -> None:
    """Enqueue the same task under different options."""
    async with app:
        await show("plain", await build_report.enqueue(1))
        await show("later", await build_report.using(delay="5m").enqueue(2))
        await show("urgent", await build_report.using(priority=0).enqueue(3))
        await show("tagged", await build_report.using(tags={"tenant": "acme"}, actor="ada").enqueue(4))

        # One live job per customer: the second enqueue finds the first one's job.
        await show("unique", await build_report.using(unique="customer:5").enqueue(5))
        await show("again", await build_report.using(unique="customer:5").enqueue(5))

        # One request, one job, for 24 hours; another request under the same key is refused.
        await show("keyed", await build_report.using(key="order-17").enqueue(6))
        await show("repeated", await build_report.using(key="order-17").enqueue(6))
        try:
            await build_report.using(key="order-17").enqueue(7)
        except KeyConflict as refused:
            print("refused   ", str(refused).partition(";")[0])


if __name__ == "__main__":
    asyncio.run(main())
