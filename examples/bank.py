"""A bank for the examples: one charge for each Idempotency-Key, and no ear for a worker that was overtaken.

python examples/bank.py 8099        POST / {"invoice": "A-17", "amount": 500} charges, GET / shows the book
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Bank(ThreadingHTTPServer):
    """`book` holds what was charged; `heard` counts requests. The first `lost` answers never leave the bank."""

    def __init__(self, port: int = 0, lost: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Counter)
        self.book: dict[str, dict[str, Any]] = {}
        self.fences: dict[str, int] = {}
        self.heard, self.lost = 0, lost
        self.changed, self.closing = threading.Condition(), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def charge(self, headers: Any, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Fence first, then key: the highest fence of a resource rules, and a key is charged once."""
        key, resource, fence = (
            headers["Idempotency-Key"],
            headers["Execution-Fence-Resource"],
            headers["Execution-Fence"],
        )
        with self.changed:
            self.heard += 1
            self.changed.notify_all()
            if int(fence) < self.fences.get(resource, 0):
                return 409, {"code": "stale_fence", "fence": self.fences[resource]}
            self.fences[resource] = int(fence)
            kept = self.book.setdefault(key, {"id": f"ch_{len(self.book) + 1}", **body})
            return (200, kept) if kept == {"id": kept["id"], **body} else (422, {"code": "another_body"})

    def wait_for(self, requests: int, seconds: float) -> bool:
        """Whether so many requests came within the time."""
        with self.changed:
            return self.changed.wait_for(lambda: self.heard >= requests, seconds)


class Counter(BaseHTTPRequestHandler):
    server: Bank

    def do_POST(self) -> None:
        status, answer = self.server.charge(
            self.headers, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        )
        if self.server.heard <= self.server.lost:
            self.server.closing.wait()  # the money has moved, and nobody is told
        else:
            self.answer(status, answer)

    def do_GET(self) -> None:
        self.answer(200, {"charges": list(self.server.book.values()), "heard": self.server.heard})

    def answer(self, status: int, body: Any) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextlib.contextmanager
def opened(lost: int = 0) -> Iterator[Bank | None]:
    """A bank in this process, named by BANK_URL; none when BANK_URL names one already."""
    if "BANK_URL" in os.environ:
        yield None
        return
    with Bank(lost=lost) as bank:
        threading.Thread(target=bank.serve_forever, daemon=True).start()
        os.environ["BANK_URL"] = bank.url
        yield bank
        bank.closing.set()
        bank.shutdown()
        del os.environ["BANK_URL"]


if __name__ == "__main__":
    Bank(int(sys.argv[1])).serve_forever()
