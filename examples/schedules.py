"""Tasks that run by themselves: scheduled by the program, and at run time, where they are closed and deleted too."""

import asyncio

from holdfast import Context, Holdfast

app = Holdfast("sqlite://")

told: asyncio.Queue[str] = asyncio.Queue()


@app.schedule(every="1s", args={"what": "orders"}, overlap="queue")
@app.schedule(cron="0 3 * * *", tz="Europe/Berlin", days="mon-fri", args={"what": "nights"}, name="nightly")
@app.task
async def count(ctx: Context, what: str) -> None:
    """Count something; two schedules make jobs of this task."""
    whole = ctx.fire_time is not None and ctx.fire_time.microsecond == 0
    await told.put(f"{what}, by {ctx.job.schedule or 'hand'}, at a whole second: {whole}")


async def main() -> None:
    """Let a worker run beside, which fires what is due."""
    async with app:
        stop = asyncio.Event()
        worker = asyncio.create_task(app.run_worker(stop=stop))
        print(await told.get())

        for state in await app.schedules.list():
            print(f"{state.name}: {state.times}")
        await app.schedules.run("nightly")
        while (said := await told.get()).startswith("orders"):
            pass
        print(said.partition(",")[0], "run by hand:", [fire.outcome for fire in await app.schedules.fires("nightly")])

        await app.schedules.create("stock", count.call(what="stock"), every="1s", overlap="queue", actor="ada")
        while not (await told.get()).startswith("stock"):
            pass
        print("made at run time: stock")

        await app.schedules.start_maintenance("inventory", days="mon-sun", reason="nobody may count now")
        await asyncio.sleep(1.2)  # one of its times passes
        print(next(fire.note or "" for fire in await app.schedules.fires("stock")).partition(" until")[0])
        print("left out, and recorded so")

        await app.schedules.delete("stock")
        print("left:", ", ".join(state.name for state in await app.schedules.list()))
        stop.set()
        await worker


if __name__ == "__main__":
    asyncio.run(main())
