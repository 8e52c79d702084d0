"""An older build never overwrites a newer one: a lock, a guard inside it, and a token for the world outside."""

import asyncio

from holdfast import Context, Holdfast, Skip

app = Holdfast("sqlite://")

shown: dict[str, int] = {}  # a table of yours: which build each edition shows
newest: dict[str, int] = {}  # and the newest that it ever showed


class Cdn:
    """Stand for an outside system: it remembers the largest token that it has seen, and refuses smaller ones."""

    def __init__(self) -> None:
        self.seen = 0

    def put(self, page: str, token: int) -> str:
        """Write a page."""
        if token < self.seen:
            return f"{page} refused: token {token} is older than {self.seen}"
        self.seen = token
        return f"{page} written"


cdn = Cdn()


@app.task
async def publish(ctx: Context, edition: str, build: int, *, rollback: bool = False) -> str:
    """Let an edition show a build, unless it has shown a newer one; a rollback is asked for by name."""
    async with ctx.lock("edition", edition) as lock:
        if build <= newest.get(edition, 0) and not rollback:
            reason = f"build {newest[edition]} is not older than build {build}"
            raise Skip(reason)
        written = cdn.put(f"{edition}/{build}", lock.token)
        shown[edition] = build
        newest[edition] = max(build, newest.get(edition, 0))
        return written


async def main() -> None:
    """Builds that come in the wrong order, a rollback, and one who was thought dead."""
    async with app:
        for build, rollback in ((2, False), (1, False), (3, False), (2, True), (3, False)):
            handle = await publish.enqueue("main", build=build, rollback=rollback)
            await app.run_worker(until="empty")
            job = await handle.get()
            said = job.result or (job.progress.message if job.progress else "")
            print(f"build {build}{' by force' if rollback else ''}: {said}; shown is {shown['main']}")

        async with app.lock("edition", "main") as lock:
            (row,) = await app.locks.list()
            print("held by:", row.owner.partition("/")[0] != "", "for a job:", row.job is not None)
        print(cdn.put("main/9", lock.token))
        print(cdn.put("main/9", 1))


if __name__ == "__main__":
    asyncio.run(main())
