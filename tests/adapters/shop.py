"""A shop that is killed: started as `python -m tests.adapters.shop`, it reads runs from its input and reports each.

A run is a child process, forked so that the libraries are imported once, which writes orders and jobs in transactions
of its own until it is done or SIGKILL ends it: sent by itself after a chosen step, or from outside at a chosen moment.
"""

import asyncio
import sys
from typing import Literal

import msgspec

from tests.adapters.conftest import Place, make_app
from tests.support.forks import Say, die, run_child
from tests.support.libraries import LIBRARIES, configured_django
from tests.support.programs import tell

Step = Literal["begun", "ordered", "enqueued", "ended"]
STEPS: tuple[Step, ...] = ("begun", "ordered", "enqueued", "ended")


class Run(msgspec.Struct):
    """What one child does, and what ends it: `dies_after` a step of its last transaction, or a time from outside."""

    library: str
    address: str
    schema: str | None
    numbers: list[int]
    dies_after: Step | None
    killed_after_ms: float


class Ran(msgspec.Struct):
    """What a child did, as far as it came to say so."""

    begun: list[int]
    committed: list[int]
    rolled_back: list[int]
    was_killed: bool
    failures: list[str]


def is_rolled_back(number: int) -> bool:
    """Every fifth order is taken back."""
    return number % 5 == 0


async def trade(run: Run, say: Say) -> None:
    place = Place(run.library, run.address, run.schema)
    app, ship = make_app()
    async with app.open_on(place.store()):
        caller = LIBRARIES[run.library](app, ship)
        await caller.open(run.address)
        for number in run.numbers:
            dies_after = run.dies_after if number == run.numbers[-1] else None
            say(f"begun {number}")
            await caller.begin()
            die_if(dies_after == "begun")
            await caller.value(f"INSERT INTO {place.orders} (n) VALUES ({number})")
            die_if(dies_after == "ordered")
            if number % 3 == 0:
                await caller.enqueue_many([ship.using(key=f"key {number}").call(number)])
            else:
                await caller.enqueue(number, unique=f"unique {number}")
            die_if(dies_after == "enqueued")
            if is_rolled_back(number):
                await caller.rollback()
                say(f"rolled_back {number}")
            else:
                await caller.commit()
                say(f"committed {number}")
            die_if(dies_after == "ended")
        await caller.close()


def die_if(is_time: bool) -> None:
    if is_time:
        die()


def ran(run: Run) -> Ran:
    killed_after_ms = run.killed_after_ms if run.dies_after is None else None
    ended = run_child(lambda say: asyncio.run(trade(run, say)), killed_after_ms)
    begun, committed, rolled_back = (
        [int(number) for number in ended.rest(word)] for word in ("begun", "committed", "rolled_back")
    )
    return Ran(begun, committed, rolled_back, ended.was_killed, ended.rest("failure"))


def main() -> None:
    configured_django()  # imported once, like the others
    for line in sys.stdin:
        tell(ran(msgspec.json.decode(line, type=Run)))


if __name__ == "__main__":
    main()
