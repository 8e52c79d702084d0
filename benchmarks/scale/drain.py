"""One worker process: `python -m benchmarks.scale.drain --concurrency 200 [--stay]`, and a line of JSON at its end.

With `--stay` it works until its standard input ends, without it until nothing is left to do.
"""

import argparse
import asyncio
import json
import resource
import sys
import time

from benchmarks.scale.place import place_of_environment
from benchmarks.scale.program import make_staged, make_work


async def _drain(concurrency: int, *, stays: bool) -> dict[str, float]:
    app = place_of_environment().app()
    make_work(app)
    make_staged(app)
    stop = asyncio.Event()
    if stays:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    began = time.monotonic()
    await app.run_worker(concurrency=concurrency, until="told" if stays else "empty", stop=stop)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": time.monotonic() - began,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1_024,
    }


def main() -> None:
    """Work, and print what it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--stay", action="store_true")
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(_drain(arguments.concurrency, stays=arguments.stay))), flush=True)


if __name__ == "__main__":
    main()
