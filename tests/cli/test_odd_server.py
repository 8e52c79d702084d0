"""`--server` with an address of something else, or of a server that means harm: one line, and an exit code."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.main import standalone
from holdfast.remote import link

Serve = Callable[[bytes], str]
JSON = "application/json"


def written(
    body: bytes, *, kind: str = JSON, status: str = "200 OK", more: str = "", length: int | None = None
) -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body) if length is None else length}\r\n"
    return f"{head}connection: close\r\n{more}\r\n".encode() + body


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that answer whatever is asked with the same bytes."""
    listening: list[socket.socket] = []

    def start(answer: bytes) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)
        threading.Thread(target=_answer_all, args=(server, answer), daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in listening:
        server.close()


def _answer_all(server: socket.socket, answer: bytes) -> None:
    while True:
        try:
            peer, _ = server.accept()
        except OSError:
            return
        with closing(peer):
            try:
                peer.recv(65_536)
                peer.sendall(answer)
            except OSError:  # it has read enough
                continue


def ask(*args: str, token: str = "hf_x") -> Result:  # noqa: S107 - of no server
    result = CliRunner(env={"HOLDFAST_TOKEN": token}).invoke(standalone, list(args))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def said(result: Result, *codes: int) -> str:
    """Give the one line that a command has said."""
    assert result.exit_code in codes, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


ODD = {
    "redirect": written(b"", status="302 Found", more="location: https://elsewhere.example.org/login\r\n"),
    "endless redirect": written(b"", status="301 Moved", more="location: /api/v1/jobs\r\n"),
    "redirect without an address": written(b"", status="308 Permanent Redirect"),
    "HTML": written(b"<html>Welcome</html>", kind="text/html"),
    "HTML as an error": written(b"<html>Oh</html>", kind="text/html", status="502 Bad Gateway"),
    "JSON as text": written(b'{"jobs": []}', kind="text/plain"),
    "no JSON": written(b"{'jobs': []}"),
    "half a JSON": written(b'{"jobs": ['),
    "not UTF-8": written(b'{"jobs": "\xff\xfe"}'),
    "deep JSON": written(b"[" * 100_000 + b"]" * 100_000),
    "a deep error": written(b"[" * 100_000, status="400 Bad Request"),
    "truncated": written(b'{"jobs": [', length=1_000),
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "an empty body": written(b""),
    "a list": written(b"[]"),
    "a text": written(b'"jobs"'),
    "another object": written(b'{"items": 5}'),
    "jobs of another kind": written(b'{"jobs": [{"id": 5}], "next": null, "searched_to": null, "queues": 7}'),
    "a number for a list": written(b'{"jobs": 5, "queues": 5, "workers": null}'),
    "compressed": written(b"\x1f\x8b\x08\x00", more="content-encoding: gzip\r\n"),
    "an error of many lines": written(
        b'{"type": "urn:x:y", "detail": "one\\n\\u001b[31mtwo\\r\\nthree"}', status="400 Bad Request"
    ),
    "an odd date": written(b"[]", more="date: Mon, 99 Foo 99999999999 99:99:99 GMT\r\n"),
}
COMMANDS = (
    ("jobs", "list"),
    ("queues", "list"),
    ("jobs", "tail"),
    ("dead-letters", "export", "-"),
    ("enqueue", "send_email", "to=a"),
)


@pytest.mark.parametrize("answer", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_odd_answer_is_one_line(serve: Serve, command: tuple[str, ...], answer: bytes) -> None:
    said(ask("--server", serve(answer), *command), 1, 2, 124)


def test_a_redirect_is_not_followed_and_named(serve: Serve) -> None:
    line = said(ask("--server", serve(ODD["redirect"]), "jobs", "list"), 1)
    assert "answered 302 and leads to 'https://elsewhere.example.org/login'" in line


def test_an_answer_without_end_is_not_read_to_its_end(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_LARGEST", 100_000)
    monkeypatch.setattr(link, "_LARGEST_LINE", 100_000)
    address = serve(written(b'"' + b"x" * 1_000_000 + b'"'))
    assert "more than 100,000 bytes" in said(ask("--server", address, "jobs", "list"), 1)
    for kind, command in (
        ("text/event-stream", ("jobs", "tail")),
        ("application/x-ndjson", ("dead-letters", "export", "-")),
    ):
        address = serve(written(b"x" * 1_000_000, kind=kind))
        assert "a line of more than 100,000 bytes" in said(ask("--server", address, *command), 1)


@pytest.mark.parametrize(
    "address", ["http://[::1", "http://h:99999", "http://h:x", "http://", "ftp://h", "http://u:p@h"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    assert "expected an address such as https://jobs.example.org" in said(ask("--server", address, "jobs", "list"), 2)


@pytest.mark.parametrize("token", ["hf_é", "hf_a\r\nx: y", "hf_\x7f"])
def test_a_token_that_fits_no_header_is_refused_and_not_shown(token: str) -> None:
    line = said(ask("--server", "http://127.0.0.1:1", "jobs", "list", token=token), 2)
    assert "the token for the server: expected letters, digits and signs of ASCII" in line
    assert "hf_" not in line
