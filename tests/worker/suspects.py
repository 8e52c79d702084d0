"""Jobs whose process died, and a module of plain tasks for them that other processes can import."""

import importlib
import itertools
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast import Holdfast, JobHandle, failure
from holdfast.stores.values import Claim, Lane
from holdfast.transitions import crashed
from tests.support.workers import working

SOURCE = """
import asyncio, os, pathlib, signal, sys
from contextlib import asynccontextmanager
from holdfast import Context, Holdfast, Pipeline, WorkerSettings, backoff, phase

folder = pathlib.Path({folder!r})
is_elsewhere = os.getpid() != {pid!r}
trouble = os.environ.get("SUSPECTS_TROUBLE") if is_elsewhere else None

if trouble == "import":
    raise ImportError("this module cannot be imported elsewhere")
if trouble == "death":
    os._exit(3)

@asynccontextmanager
async def lifespan(app):
    if trouble == "lifespan":
        raise OSError("the port is in use")
    yield {{"pid": os.getpid()}}

app = Holdfast(
    f"sqlite:///{{folder}}/other.db" if trouble == "store" else {url!r},
    schema={schema!r}, lifespan=lifespan, synchronous="normal", retry=backoff("fixed", "1h", jitter=0),
    worker=WorkerSettings(embedded_lease="10s", transaction_budget="1s", kill_grace="300ms", poll="100ms"),
)

@app.task
async def where() -> int:
    return os.getpid()

@app.task
def where_in_a_thread(ctx: Context) -> int:
    return ctx.state["pid"]

@app.task(timeout="1h")
async def hold(ctx: Context) -> int:
    ctx.progress(50, "half")
    (folder / f"{{ctx.job.id}}.begun").write_text(str(os.getpid()))
    while not (folder / f"{{ctx.job.id}}.go").exists():
        await asyncio.sleep(0.02)
    return os.getpid()

@app.task
class Steps(Pipeline):
    n: int

    @phase
    async def one(self, ctx: Context) -> int:
        return self.n + 1

    @phase
    def two(self, ctx: Context) -> list:
        return [ctx.result("one"), os.getpid()]

@app.task
async def pay(ctx: Context, number: int) -> str:
    async with ctx.transaction() as tx:
        done = tx.connection.execute(f"INSERT INTO {effects} VALUES ({{number}})")
        if asyncio.iscoroutine(done):
            await done
        tx.result = f"paid by {{os.getpid()}}"

@app.task
async def die() -> None:
    assert is_elsewhere, "it would take the tests along"
    os.kill(os.getpid(), signal.SIGKILL)

@app.task
async def need_the_program() -> int:
    if is_elsewhere:
        raise RuntimeError("the pool of the program is not open")
    return os.getpid()
"""

_numbers = itertools.count()
_batches = itertools.count(1_000)


def write(folder: Path, url: str, schema: str) -> ModuleType:
    """Write the module, and import it under a name of its own."""
    name = f"suspects_{os.getpid()}_{next(_numbers)}"
    effects = "holdfast_effects" if url.startswith("sqlite") else f"{schema}.effects"
    text = SOURCE.format(folder=str(folder), url=url, schema=schema, pid=os.getpid(), effects=effects)
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    return importlib.import_module(name)


async def charge(app: Holdfast, *handles: JobHandle[Any]) -> None:
    """Let the worker of jobs die under them, once: they are the only ones that wait."""
    store: Any = app.store
    async with working(app, queues=["nothing"]) as other:
        jobs = await store.claim_jobs(
            Claim(other.id, next(_batches), len(handles), (Lane("default", 5, len(handles)),))
        )
        assert {job.id for job in jobs} == {handle.number for handle in handles}
        why = failure.from_text("WorkerLost", "its worker process 1 was killed by signal 9")
        await store.finish_jobs([crashed(job.id, job.claim, why) for job in jobs])
