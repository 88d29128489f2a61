"""A database that stays open for all tests of a process: compiling its statements anew costs more than a test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.db.engine import Database
from tests.flow.world import World, make


@pytest.fixture(scope="session")
def kept_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Database]]:
    folder = tmp_path_factory.mktemp("kept")
    kept = {"sqlite": Database(f"sqlite:///{folder / 'kept.db'}")}
    yield kept
    for database in kept.values():
        database.dispose()


@pytest.fixture
def flow_database(
    backend: str, fresh_database: Callable[[str], str], kept_databases: dict[str, Database]
) -> Iterator[Database]:
    """As `database`, without rows, on an engine that earlier tests have used."""
    url = fresh_database(backend)
    if backend == "sqlite":
        _replace(Path(str(kept_databases[backend].url.database)), Path(url.removeprefix("sqlite:///")))
    elif backend not in kept_databases:
        kept_databases[backend] = Database(url)
    database = kept_databases[backend]
    yield database
    database.checkpoint = None
    database.dispose()


def _replace(kept: Path, fresh: Path) -> None:
    for name in (f"{kept}-wal", f"{kept}-shm"):
        Path(name).unlink(missing_ok=True)
    os.replace(fresh, kept)


@pytest.fixture
def world(flow_database: Database) -> Iterator[World]:
    made = make(flow_database)
    yield made
    made.database.checkpoint = None
    made.check()
