"""`GET /queue/jobs/{public_id}`, in the words of seed 000."""

from datetime import datetime

from holdfast import Context, Holdfast
from holdfast.server.settings import ServerSettings
from tests.server.asking import asking
from tests.server.test_api_jobs import problem
from tests.support.workers import drained


async def test_a_job_in_the_shape_of_a_queue_job(memory_app: Holdfast) -> None:
    @memory_app.task(max_attempts=1)
    async def build_processing(ctx: Context, editions: list[str]) -> None:
        async with ctx.phase("editions"), ctx.items("editions", editions) as items:
            await items.each(update)

    async def update(edition: str) -> None:
        if edition == "DM-12345":
            message = "R2 timeout after 3 retries"
            raise TimeoutError(message)

    tags = {"build_url": "https://docs.example.org/builds/7", "subject_label": "build 7"}
    handle = await build_processing.using(tags=tags).enqueue(["__main", "DM-12345"])
    settings = ServerSettings(url="https://docs.example.org/jobs")
    async with asking(memory_app, "viewer", settings=settings) as web:
        address = f"/queue/jobs/{handle.id}"
        before = (await web.get(address)).json()
        assert (before["status"], before["date_started"], before["progress"], before["errors"]) == (
            "queued",
            None,
            None,
            None,
        )
        await drained(memory_app)
        told = (await web.get(address)).json()
        for date in ("date_created", "date_started", "date_completed"):
            assert datetime.fromisoformat(told.pop(date)).tzinfo is not None
        assert told == {
            "self_url": f"https://docs.example.org/jobs{address}",
            "id": handle.id,
            "status": "completed_with_errors",
            "kind": "build_processing",
            "build_url": "https://docs.example.org/builds/7",
            "edition_url": None,
            "subject_url": None,
            "subject_label": "build 7",
            "phase": "editions",
            "progress": told["progress"],
            "errors": [{"items": "editions", "slug": "DM-12345", "error": "TimeoutError: R2 timeout after 3 retries"}],
        }
        assert {name: told["progress"][f"editions_{name}"] for name in ("total", "completed", "in_progress")} == {
            "total": 2,
            "completed": ["__main"],
            "in_progress": [],
        }
        await memory_app.jobs.delete(handle.id)
        assert problem(await web.get(address)) == (404, "not-found")
        assert problem(await web.get("/queue/jobs/htcx-2s16-z48b-0x")) == (422, "invalid-value")
        assert (await web.get(address, headers={"authorization": ""})).status_code == 401
