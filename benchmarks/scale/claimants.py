"""Several connections in one process, each a worker of its own that claims and finishes until nothing is left.

`python -m benchmarks.scale.claimants --connections 16 --batch 10` says "ready", waits for a line, and works.
"""

import argparse
import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

from benchmarks.contestants.contestant import LEDGER
from benchmarks.contestants.ledger import Ledger
from benchmarks.scale.asking import Asker, enter, starts_at_beginning
from benchmarks.scale.place import AnyStore, place_of_environment
from holdfast.job import JobRow
from holdfast.stores.values import Verdict
from holdfast.transitions import completed


async def _work(store: AnyStore, asker: Asker, batch: int, ledger: Ledger) -> int:
    """Finish and claim in one call each time, until a claim from the lanes' beginning finds nothing."""
    held: list[JobRow] = []
    done = 0
    while True:
        claim = asker.claim(batch)
        worked = await store.finish_jobs([completed(job.id, job.claim) for job in held], claim=claim)
        for job, finish in zip(held, worked.finishes, strict=True):
            if finish.verdict is Verdict.DONE:
                ledger.record(job.payload["number"])
                done += 1
        held = worked.claimed
        asker.took(held)
        if not held:
            if starts_at_beginning(claim):
                return done
            asker.look_again()


async def _main(connections: int, batch: int) -> int:
    ledger = Ledger(os.environ[LEDGER])
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(place_of_environment().opened()) for _ in range(connections)]
        askers = [await enter(store) for store in stores]
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        pairs = zip(stores, askers, strict=True)
        return sum(await asyncio.gather(*(_work(store, asker, batch, ledger) for store, asker in pairs)))


def main() -> None:
    """Work, and print how many jobs were finished here."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(_main(arguments.connections, arguments.batch))), flush=True)


if __name__ == "__main__":
    main()
