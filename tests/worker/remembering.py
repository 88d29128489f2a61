"""The other side: a small real HTTP server that remembers every request, and answers as it is told."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class Answer:
    """What `send` gets: as much of a response as Tenure reads."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(slots=True)
class Receiver:
    """`requests` are in the order in which they came; `replies` are used up one by one, then 200 with a number."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    replies: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def take(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        with self.guard:
            self.requests.append({"headers": headers, "body": json.loads(body or b"null")})
            number = len(self.requests)
            return self.replies.pop(0) if self.replies else (200, {}, json.dumps({"number": number}).encode())

    def keys(self) -> list[str]:
        return [request["headers"]["idempotency-key"] for request in self.requests]

    def fences(self) -> list[int]:
        return [int(request["headers"]["execution-fence"]) for request in self.requests]


def post(url: str, headers: dict[str, str], body: Any = None) -> Answer:
    """One request, without a client library."""
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return Answer(response.status, dict(response.headers), response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers, answer = receiver.take({k.lower(): v for k, v in self.headers.items()}, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (its base names it so)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
