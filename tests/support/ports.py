"""Ports that belong to one test alone: no other test gets one, and the system hands none out to a connection."""

import random
import socket

_RANGE = range(18_000, 32_000)  # the system gives connections ports from 32,768 on
_reserved: dict[int, socket.socket] = {}


def free_port() -> int:
    """Reserve a port at which no program listens, until it is released or this process ends."""
    for port in random.sample(_RANGE, len(_RANGE)):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0holdfast-test-port-{port}")  # an abstract name: it ends with the process, whatever happens
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _reserved[port] = claim
        return port
    message = "every port of the tests is taken"
    raise AssertionError(message)


def release_port(port: int) -> None:
    """Let another test have a port; one that was released before stays so."""
    if (claim := _reserved.pop(port, None)) is not None:
        claim.close()
