"""A network that can be cut: a TCP proxy before a real PostgreSQL.

`cut` breaks every connection and refuses new ones until `resume`. `cut_at` breaks the one connection over which a text
is next sent: before the server has seen it, or after the server has answered and before the client hears of it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

CHUNK = 65536


@dataclass
class Pair:
    """One client's connection, and the proxy's to the server for it."""

    client: socket.socket
    server: socket.socket
    swallow: bool = False

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Listens on a port of its own on loopback; `url` is the target's with that port."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        assert target.hostname is not None
        assert target.port is not None
        self._target = (target.hostname, target.port)
        self._pairs: list[Pair] = []
        self._trigger: tuple[bytes, bool] | None = None
        self._guard = threading.Lock()
        self._open = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        credentials = target.netloc.rpartition("@")[0]
        self.url = urlunsplit(target._replace(netloc=f"{credentials}@127.0.0.1:{port}"))
        self.fired = threading.Event()
        threading.Thread(target=self._accept, name="proxy-accept", daemon=True).start()

    def cut(self) -> None:
        """Breaks all connections; new ones are closed as soon as they are made."""
        with self._guard:
            self._open = False
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.close()

    def resume(self) -> None:
        """New connections go through again."""
        self._open = True

    def cut_at(self, text: bytes, *, delivered: bool) -> None:
        """Breaks, once, the connection that next sends `text`; `fired` says that it happened."""
        self.fired.clear()
        self._trigger = (text, delivered)

    def close(self) -> None:
        self.cut()
        # A close alone would not end the accept that waits on it.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                pair = Pair(client, socket.create_connection(self._target))
            except OSError:
                client.close()
                continue
            with self._guard:
                if self._open:
                    self._pairs.append(pair)
            if pair not in self._pairs:
                pair.close()
                continue
            for pump in (self._to_server, self._to_client):
                threading.Thread(target=pump, args=(pair,), name="proxy-pump", daemon=True).start()

    def _to_server(self, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.client.recv(CHUNK):
                if self._trigger is not None and self._trigger[0] in data:
                    (_, delivered), self._trigger = self._trigger, None
                    self.fired.set()
                    if not delivered:
                        break
                    pair.swallow = True
                pair.server.sendall(data)
        pair.close()

    def _to_client(self, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.server.recv(CHUNK):
                if pair.swallow:
                    break
                pair.client.sendall(data)
        pair.close()


@contextmanager
def running(url: str) -> Iterator[Proxy]:
    """A proxy before the server of `url` for the body."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
