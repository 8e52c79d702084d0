"""Download, process and upload in three phases; the worker is killed in the second, and the next one goes on there."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen, urlretrieve

from holdfast import Context, Holdfast, Pipeline, phase

app = Holdfast("sqlite:///pipeline.db")
WORKER = [sys.executable, "-m", "holdfast", "worker", "-A", "pipeline:app"]


@app.task
class Report(Pipeline):
    """Add up sales; the fields are the arguments, and what a phase returns is stored the moment it ends."""

    url: str

    @phase
    def download(self, ctx: Context) -> str:
        """Fetch the sales, in a thread, into a file."""
        ctx.log.info("asking %s", self.url)
        return urlretrieve(self.url, "sales.txt")[0]  # noqa: S310 - it is our own server

    @phase(weight=3)
    async def process(self, ctx: Context) -> int:
        """Add up, on the event loop; of the whole work this is three fifths."""
        sales = (await asyncio.to_thread(Path(ctx.result("download")).read_text)).split()
        for number, _ in enumerate(sales, start=1):
            await ctx.progress(100 * number / len(sales), f"{number} of {len(sales)} sales")
            await asyncio.sleep(0.2)
        return sum(map(int, sales))

    @phase
    def upload(self, ctx: Context) -> str:
        """Send the sum, in a thread."""
        with urlopen(self.url, b"%d\n" % ctx.result("process")) as answer:  # noqa: S310 - likewise
            return str(answer.read().decode().strip())


async def shop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Stand for the servers at both ends: give the sales, and take their sum."""
    is_asked = (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET")
    writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + (b"3\n2\n4\n" if is_asked else b"got " + await reader.readline()))
    writer.close()


def start_worker() -> subprocess.Popen[bytes]:
    """Start a worker in a group of processes of its own."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen(WORKER, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - it is ours


async def main() -> None:
    """Kill the first worker when it is half way, and let another one do the rest."""
    async with app, await asyncio.start_server(shop, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        job = await Report(url=f"http://{host}:{port}").enqueue()
        first = start_worker()
        async for event in job.watch():
            if event.data.get("phase") == "process":
                os.killpg(first.pid, signal.SIGKILL)
                first.wait()
                break
        second = start_worker()
        print("result:", await job.result(timeout="20s"))
        for one in (await job.get()).phases:
            print(f"{one.name}: {one.state} by claim {one.claim}, {one.result}")
        second.terminate()
        await asyncio.to_thread(second.wait)


if __name__ == "__main__":
    asyncio.run(main())
