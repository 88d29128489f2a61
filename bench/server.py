"""A PostgreSQL for a run: the one that the tests start, set to survive a power cut as a production server is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg

from tests.postgres import Server

DURABLE: list[LiteralString] = [
    "ALTER SYSTEM SET fsync = on",
    "ALTER SYSTEM SET full_page_writes = on",
    "ALTER SYSTEM SET max_wal_size = '4GB'",
    "SELECT pg_reload_conf()",
]


@contextmanager
def durable_server() -> Iterator[str]:
    """The URL of a server that flushes every commit."""
    server = Server()
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            for statement in DURABLE:
                connection.execute(statement)
            connection.execute("CREATE DATABASE bench")
        with psycopg.connect(server.url, autocommit=True) as connection:
            shown = connection.execute("SHOW fsync").fetchone()
            assert shown == ("on",)
        yield server.url.rsplit("/", 1)[0] + "/bench"
    finally:
        server.close()
