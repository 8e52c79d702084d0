"""A program whose tasks contend for one lock: `python -m tests.races.contending URL SCHEMA FOLDER TASKS ROUNDS`.

Whoever is inside makes a file that must not exist, and writes its token down; two at once would end the program.
"""

import asyncio
import os
import sys
from pathlib import Path

from holdfast import Holdfast


async def contend(app: Holdfast, folder: Path, rounds: int) -> None:
    """Take the lock again and again."""
    for _ in range(rounds):
        async with app.lock("contended") as lock:
            os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
            await asyncio.sleep(0)  # the others of this process try meanwhile; other processes do at any time
            ledger = os.open(folder / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(ledger, f"{lock.token} {os.getpid()}\n".encode())
            os.close(ledger)
            (folder / "inside").unlink()


async def main(url: str, schema: str, folder: Path, tasks: int, rounds: int) -> None:
    """Let tasks contend until each has had its turns."""
    async with Holdfast(url, schema=schema, pool_size=2) as app:
        await asyncio.gather(*(contend(app, folder, rounds) for _ in range(tasks)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])))
