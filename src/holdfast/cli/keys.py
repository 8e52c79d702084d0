"""Single keys of a person at a terminal, while something is drawn."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_END = "q"


@contextmanager
def pressed() -> Iterator["asyncio.Queue[str]"]:
    """Give the keys that are pressed while the block runs, each at once and without being shown.

    Where nobody types, because stdin is no terminal, there are none.
    """
    keys: asyncio.Queue[str] = asyncio.Queue()
    if not sys.stdin.isatty():
        yield keys
        return
    import termios  # noqa: PLC0415 - only POSIX systems have it, and only they have such terminals
    import tty  # noqa: PLC0415 - as above

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    loop = asyncio.get_running_loop()

    def read() -> None:
        typed = os.read(number, 64).decode(errors="ignore")
        for key in typed or _END:  # the terminal is gone
            keys.put_nowait(key.lower())

    tty.setcbreak(number)
    loop.add_reader(number, read)
    try:
        yield keys
    finally:
        loop.remove_reader(number)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(number, termios.TCSADRAIN, before)
