"""Somebody who guesses tokens, so many a second, as a process of its own: `guessing PORT PATH RATE SECONDS`."""

import json
import socket
import sys
import threading
import time
from collections import Counter

_AT_ONCE = 4


def ask(link: socket.socket, path: str, number: int) -> int:
    """Guess once; the answer is its status."""
    link.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer hf_{number}\r\n\r\n".encode())
    said = b""
    while b"\r\n\r\n" not in said:
        said += link.recv(65_536)
    head, _, body = said.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += link.recv(65_536)
    return int(head.split(b" ", 2)[1])


def guess(port: int, path: str, rate: float, seconds: float) -> Counter[int]:
    """Guess for a while, by several connections."""
    found: Counter[int] = Counter()

    def some(first: int) -> None:
        began = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port)) as link:
            for number in range(int(rate * seconds) // _AT_ONCE):
                time.sleep(max(0.0, began + number * _AT_ONCE / rate - time.perf_counter()))
                found[ask(link, path, number * _AT_ONCE + first)] += 1

    threads = [threading.Thread(target=some, args=[first]) for first in range(_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


if __name__ == "__main__":
    began = time.perf_counter()
    statuses = guess(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
    told = {"statuses": statuses, "rate": sum(statuses.values()) / (time.perf_counter() - began)}
    sys.stdout.write(json.dumps(told))
