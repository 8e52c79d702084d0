"""Whether this process is a copy: of a worker that a handler has forked, there must not be two."""

import os

generation = 0
"""How often this process is removed by `fork` from the one that imported Holdfast; reading it costs no system call."""


def _count() -> None:
    global generation  # noqa: PLW0603 - a process is forked only as a whole
    generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count)
