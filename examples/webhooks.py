"""Hear of the end of a job by a webhook: a receiver in this program checks the signature of what it is sent."""

import asyncio
import json
from typing import Any

from holdfast import Holdfast, WebhookSettings
from holdfast.webhooks.signature import new_secret, verify

SECRET = new_secret()  # a real one comes from where your other secrets are

# 127.0.0.1 is not public, so that it has to be allowed.
app = Holdfast("sqlite://", webhooks=WebhookSettings(secret=SECRET, allow=["127.0.0.1"]))
received: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()


@app.task
async def resize(path: str) -> str:
    """Stand for real work."""
    return f"{path} is smaller now"


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Stand for a web application: read one request, check who sent it, and say that it was taken."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}
    body = await reader.readexactly(int(headers["content-length"]))
    verify(headers, body, [SECRET])  # raises unless it was signed with our secret, and just now
    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    await writer.drain()
    writer.close()
    await received.put((headers["webhook-id"], json.loads(body)))


async def main() -> None:
    """Post, receive, and read what became of it."""
    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, app:
        stop = asyncio.Event()
        worker = asyncio.create_task(app.run_worker(stop=stop))
        job = await resize.using(webhook=f"http://127.0.0.1:{port}/hooks").enqueue("cat.png")

        async with asyncio.timeout(20):
            message_id, message = await received.get()
        print("the same id on every try:", message_id == f"{job.id}_1_job-completed")
        print(f"{message['type']}: {message['data']['result']}")

        stop.set()
        await worker  # it records what became of its tries before it leaves
        print("sent:", (await job.get()).webhook_sent)


if __name__ == "__main__":
    asyncio.run(main())
