"""A day of the village in half a minute: one job of each kind, on the queues and policies of `holdfast.yaml`.

python -m examples.village.run          # on SQLite, or on what VILLAGE_STORE names
python examples/village/run.py          # the same, from any folder
"""

import asyncio
import json
import mailbox
import os
import sys
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

if not __package__:  # started as a file, Python looks for modules beside it, and not where `examples` is
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from examples.village.site import TOKEN, make_site

FOLDER = Path(tempfile.mkdtemp(prefix="village-"))
os.environ.setdefault("VILLAGE_STORE", f"sqlite:///{FOLDER / 'village.db'}")
os.environ.setdefault("VILLAGE_DATA", str(FOLDER))
os.environ["VILLAGE_SOCIAL_TOKEN"] = TOKEN


def furnish(data: Path) -> None:
    """Put the files there that the village works on."""
    today = datetime.now(UTC).date()
    (data / "listings").mkdir(parents=True)
    for name, days in (("cart", 7), ("anvil", -1)):
        listing = {"owner": "owner@village.example", "until": str(today + timedelta(days=days))}
        (data / "listings" / f"{name}.json").write_text(json.dumps(listing))
    votes = [{"site": "bakery", "days_ago": 1}, {"site": "garden", "days_ago": 20}, {"site": "bakery", "days_ago": 9}]
    (data / "votes.json").write_text(json.dumps(votes))
    (data / "links.json").write_text(json.dumps(["/pages/market.html", "/pages/bridge.html", "/pages/gone.html"]))
    clicks = [{"site": "bakery", "day": str(today), "consent": consent} for consent in (True, True, False)]
    clicks.append({"site": "garden", "day": str(today - timedelta(days=91)), "consent": True})
    (data / "clicks.jsonl").write_text("".join(json.dumps(click) + "\n" for click in clicks))
    box = mailbox.Maildir(data / "mail")
    box.add("From: curious@example.org\nX-Listing: cart\n\nIs it still there? curious@example.org\n")


async def main() -> None:
    """Enqueue one job of each kind, and run until all have ended."""
    site = make_site()
    threading.Thread(target=site.serve_forever, daemon=True).start()
    os.environ["VILLAGE_URL"] = f"http://127.0.0.1:{site.server_port}"
    furnish(Path(os.environ["VILLAGE_DATA"]))
    from examples.village import tasks  # noqa: PLC0415 - it reads the environment

    app = tasks.app
    arguments: dict[str, dict[str, Any]] = {
        "message_relay": {"listing": "cart", "sender": "ann@example.org", "text": "Ask ann@example.org"},
        "ai_tagging": {"texts": {"one": "The bakery by the bridge", "two": "A garden"}},
        "image_processing": {"source": "/listing.ppm"},
        "screenshot_capture": {"page": "/pages/market.html"},
    }
    async with app:
        handles = [await app.enqueue(task.call(**arguments.get(task.kind, {}))) for task in app.tasks]
        await app.run_worker(until="empty")
        for job in [await handle.get() for handle in handles]:
            print(f"{job.queue:<10} {job.kind:<20} {job.state:<10} {job.error or job.result}")
    site.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
