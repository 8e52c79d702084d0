"""The fourteen kinds of jobs of the village: each does its work on files below VILLAGE_DATA and on VILLAGE_URL.

Which queue a kind belongs to, how often it runs, its limits and budgets stand in `holdfast.yaml`.
"""

import asyncio
import json
import mailbox
import os
import shutil
import subprocess
import tempfile
import time
import zlib
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET

from holdfast import Context, Fatal, Holdfast

URL = os.environ.get("VILLAGE_URL", "http://127.0.0.1:8765")
DATA = Path(os.environ.get("VILLAGE_DATA", "village-data"))

app = Holdfast.from_config(Path(__file__).with_name("holdfast.yaml"))


def fetch(path: str, body: str | None = None, **headers: str) -> bytes:
    """Ask the outside world."""
    request = Request(URL + path, body.encode() if body is not None else None, headers)  # noqa: S310 - our own site
    with urlopen(request, timeout=10) as answer:  # noqa: S310 - likewise
        return bytes(answer.read())


def save(name: str, content: str | bytes) -> str:
    """Write a file whole or not at all, so that running twice does no harm."""
    path = DATA / name
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{time.time_ns()}")
    part.write_bytes(content if isinstance(content, bytes) else content.encode())
    part.replace(path)
    return str(path)


def load(name: str) -> Any:
    """Read a JSON file."""
    return json.loads((DATA / name).read_text())


# ---- queue default --------------------------------------------------------------------------------------------------


@app.task
def rss_feed_refresh(feed: str = "/feed.xml") -> int:
    """Keep the entries of a feed."""
    entries = [
        {"title": item.findtext("title"), "link": item.findtext("link")}
        for item in ET.fromstring(fetch(feed)).iter("item")  # noqa: S314 - our own site
    ]
    save("feed.json", json.dumps(entries))
    return len(entries)


@app.task
def weather_refresh() -> float:
    """Keep the weather."""
    weather = json.loads(fetch("/weather"))
    save("weather.json", json.dumps(weather | {"at": datetime.now(UTC).isoformat()}))
    return float(weather["celsius"])


@app.task
def listing_expiration(today: str | None = None) -> list[str]:
    """Put away listings whose last day has passed."""
    now = date.fromisoformat(today) if today else datetime.now(UTC).date()
    expired = [
        path
        for path in sorted((DATA / "listings").glob("*.json"))
        if date.fromisoformat(json.loads(path.read_text())["until"]) < now
    ]
    (DATA / "expired").mkdir(exist_ok=True)
    return [path.rename(DATA / "expired" / path.name).stem for path in expired]


@app.task
def rank_recalculation() -> list[str]:
    """Order the good sites by their votes, older votes counting half as much each week."""
    votes, scores = load("votes.json"), Counter[str]()
    for vote in votes:
        scores[vote["site"]] += 1_000 // 2 ** (vote["days_ago"] // 7)
    ranking = [site for site, _ in scores.most_common()]
    save("ranking.json", json.dumps(ranking))
    return ranking


@app.task
async def inbound_email() -> int:
    """Read new mail and have each inquiry relayed."""
    box = mailbox.Maildir(DATA / "mail")
    messages = list(box.items())
    for key, message in messages:
        listing, sender, text = str(message["X-Listing"]), str(message["From"]), str(message.get_payload())
        await message_relay.using(unique=key).enqueue(listing=listing, sender=sender, text=text)
        box.remove(key)
    return len(messages)


# ---- queue high -----------------------------------------------------------------------------------------------------


@app.task
def stock_refresh() -> dict[str, float]:
    """Keep the prices of the market."""
    prices: dict[str, float] = json.loads(fetch("/stocks"))
    save("stocks.json", json.dumps(prices))
    return prices


@app.task
def message_relay(listing: str, sender: str, text: str) -> str:
    """Pass an inquiry on to the owner of a listing, without the address of whoever asks."""
    message = EmailMessage()
    message["To"] = load(f"listings/{listing}.json")["owner"]
    message["From"] = f"inquiry-{zlib.crc32(sender.encode()):08x}@relay.village.example"
    message["Subject"] = f"About {listing}"
    message.set_content(text.replace(sender, "(address hidden)"))
    return save(f"outbox/{listing}.eml", message.as_bytes())


# ---- queue low ------------------------------------------------------------------------------------------------------


@app.task
def social_refresh() -> int:
    """Keep the posts of the village; the token comes from the environment and is stored nowhere."""
    try:
        posts = fetch("/social", Authorization=f"Bearer {os.environ['VILLAGE_SOCIAL_TOKEN']}")
    except HTTPError as error:
        if error.code == 401:  # noqa: PLR2004 - unauthorised: trying again would not help
            message = "the token for social_refresh was refused; set VILLAGE_SOCIAL_TOKEN"
            raise Fatal(message) from None
        raise
    save("social.json", posts)
    return len(json.loads(posts))


@app.task
def link_health_check() -> list[str]:
    """Find the links of the directory that lead nowhere."""
    dead = []
    for link in load("links.json"):
        try:
            fetch(link)
        except HTTPError:
            dead.append(link)
    save("dead-links.json", json.dumps(dead))
    return dead


@app.task
def sitemap_generation() -> int:
    """Write the sitemap of all live links."""
    root = ET.Element("urlset", xmlns="http://www.sitemaps.org/schemas/sitemap/0.9")
    for link in load("links.json"):
        ET.SubElement(ET.SubElement(root, "url"), "loc").text = URL + link
    save("sitemap.xml", ET.tostring(root, encoding="utf-8", xml_declaration=True))
    return len(root)


@app.task
def click_rollup(today: str | None = None) -> dict[str, int]:
    """Count clicks by site, those with consent and of the last 90 days only; older ones are forgotten."""
    now = date.fromisoformat(today) if today else datetime.now(UTC).date()
    clicks = [json.loads(line) for line in (DATA / "clicks.jsonl").read_text().splitlines()]
    kept = [click for click in clicks if date.fromisoformat(click["day"]) > now - timedelta(days=90)]
    save("clicks.jsonl", "".join(json.dumps(click) + "\n" for click in kept))
    counts = Counter(click["site"] for click in kept if click["consent"])
    save("clicks.json", json.dumps(counts))
    return dict(counts)


# ---- queue bulk -----------------------------------------------------------------------------------------------------


@app.task
async def ai_tagging(ctx: Context, texts: dict[str, str]) -> dict[str, list[str]]:
    """Let a model tag texts, and account for what that costs."""
    tags: dict[str, list[str]] = {}
    for name, text in texts.items():
        answer = json.loads(await asyncio.to_thread(fetch, "/ai", text))
        await ctx.spend(answer["cost_usd"], "usd")
        tags[name] = answer["tags"]
    save("tags.json", json.dumps(tags))
    return tags


@app.task
def image_processing(source: str) -> tuple[int, int]:
    """Halve a picture: every second pixel of every second line."""
    kind, width, height, rest = fetch(source).split(maxsplit=3)
    pixels = rest.partition(b"\n")[2]
    columns, lines = int(width), int(height)
    rows = [pixels[3 * columns * line : 3 * columns * (line + 1)] for line in range(0, lines, 2)]
    small = b"".join(row[at : at + 3] for row in rows for at in range(0, 3 * columns, 6))
    save("listing-small.ppm", kind + b" %d %d 255\n" % (columns // 2, lines // 2) + small)
    return columns // 2, lines // 2


# ---- queue screenshot -----------------------------------------------------------------------------------------------


@app.task
def screenshot_capture(page: str) -> str:
    """Take a picture of a page with Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        message = "screenshot_capture needs Chromium; install it, for example: apt-get install chromium"
        raise Fatal(message)
    with tempfile.TemporaryDirectory() as folder:
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--window-size=640,400"]
        shot = f"{folder}/shot.png"
        command = [browser, *options, f"--screenshot={shot}", URL + page]
        subprocess.run(command, check=True, capture_output=True, timeout=60)  # noqa: S603 - the browser that was found
        return save(f"screenshots/{Path(page).stem}.png", Path(shot).read_bytes())
