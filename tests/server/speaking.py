"""Speaking to a server byte by byte, as no client library would."""

import contextlib
import socket
from pathlib import Path

from tests.support.wait import PATIENCE_S

_REFUSED = OSError  # the server has answered what came first, and reads no more


def spoken(port: int, *lines: str, body: bytes = b"") -> str:
    """Send one request as it is, and read until the server has closed."""
    head = "".join(f"{line}\r\n" for line in (*lines, "Connection: close")).encode("latin-1") + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as link:
        with contextlib.suppress(_REFUSED):
            link.sendall(head + body)
        return _rest(link)


def poured(port: int, path: str, most: int, part: bytes = b"x" * 64_000) -> str:
    """Send a body in chunks that has no end, and read what the server says to it."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as link:
        with contextlib.suppress(_REFUSED):
            link.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(most // len(part)):
                link.sendall(b"%x\r\n%b\r\n" % (len(part), part))
            link.shutdown(socket.SHUT_WR)
        return _rest(link)


def resident_mb(pid: int) -> float:
    """How much memory a process has."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1_024


def _rest(link: socket.socket) -> str:
    read = b""
    with contextlib.suppress(_REFUSED):
        while part := link.recv(65_536):
            read += part
    return read.decode("latin-1")
