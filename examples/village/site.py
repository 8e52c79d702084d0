"""The outside world of the village, as one small HTTP server: feeds, weather, stocks, pages, and a model that tags."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

TOKEN = "village-token"  # noqa: S105 - of a server that knows no secrets
FEED = """<rss version="2.0"><channel><title>Village</title>
<item><title>Market day</title><link>/pages/market.html</link></item>
<item><title>New bridge</title><link>/pages/bridge.html</link></item>
</channel></rss>"""
PAGE = "<!doctype html><title>{0}</title><body style='background:#fec'><h1>{0}</h1><p>Good sites of the village.</p>"
WORDS = ("market", "bridge", "bakery", "garden")


class Site(BaseHTTPRequestHandler):
    """Answers everything from memory."""

    def do_GET(self) -> None:
        """Answer by the path."""
        path = urlsplit(self.path).path
        name = path.rpartition("/")[2].removesuffix(".html")
        if path == "/feed.xml":
            self._answer(FEED, "application/rss+xml")
        elif path == "/weather":
            self._answer(json.dumps({"celsius": 17.5, "sky": "clear"}))
        elif path == "/stocks":
            self._answer(json.dumps({"VLG": 41.2, "BRD": 12.75}))
        elif path == "/social" and self.headers["Authorization"] == f"Bearer {TOKEN}":
            self._answer(json.dumps([{"post": "hello"}]))
        elif path == "/social":
            self._answer("who are you?", "text/plain", status=401)
        elif path.startswith("/pages/") and name in WORDS:
            self._answer(PAGE.format(name.title()), "text/html")
        elif path == "/listing.ppm":
            self._answer(b"P6 64 48 255\n" + bytes(range(192)) * 48, "image/x-portable-pixmap")
        else:
            self._answer("not here", "text/plain", status=404)

    def do_POST(self) -> None:
        """Tag a text with the words that occur in it."""
        text = self.rfile.read(int(self.headers["Content-Length"])).decode().lower()
        self._answer(json.dumps({"tags": [word for word in WORDS if word in text], "cost_usd": 0.004}))

    def _answer(self, body: str | bytes, kind: str = "application/json", *, status: int = 200) -> None:
        content = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def make_site(port: int = 0) -> ThreadingHTTPServer:
    """Make the server, on a free port unless one is named."""
    return ThreadingHTTPServer(("127.0.0.1", port), Site)


if __name__ == "__main__":
    site = make_site(8765)
    print(f"http://127.0.0.1:{site.server_port}")
    site.serve_forever()
