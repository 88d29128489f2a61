"""Databases for the tests. Most tests ask for `database_url`, which runs them once on each database.

| fixture             | what it gives                                                                               |
|---------------------|---------------------------------------------------------------------------------------------|
| `backend`           | "sqlite", then "postgresql"                                                                 |
| `database_url`      | the URL of a migrated database without rows, on `backend`                                   |
| `bare_url`          | the URL of a database without any schema, on `backend`                                      |
| `fresh_database`    | a function from a backend to such a URL as `database_url` has (on PostgreSQL always the same) |
| `postgres_url`      | what `database_url` gives on PostgreSQL, for tests of PostgreSQL alone                      |
| `scratch_postgres`  | a function that makes a new PostgreSQL database: `()`, `(migrated=True)`, `(template=url)`  |
| `postgres_server`   | a server of the test's own, to be killed and started again                                  |
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings

from tests import postgres

pytest_plugins = ["tests.strict"]

NAMED_SERVER = "TENURE_TEST_POSTGRES"
SESSION = pytest.StashKey["PostgresSession"]()

settings.register_profile("tenure", deadline=None, print_blob=True)
settings.load_profile("tenure")


class PostgresSession:
    """The server of a whole run. With pytest-xdist the controller holds it and the workers get its URL."""

    def __init__(self, named: str | None) -> None:
        self.url = postgres.plain(named) if named else None
        self.run = postgres.new_run()
        self._named = named is not None
        self._server: postgres.Server | None = None

    def start(self) -> str:
        if self.url is None:
            self._server = postgres.Server()
            self.url = self._server.url
        return self.url

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        elif self._named and self.url is not None:
            postgres.Databases(self.url, self.run, "end").drop_all()


# ---------------------------------------------------------------------------------------------------------------------
# One server for a run


class Controller:
    """The hooks that pytest-xdist calls for each of its workers."""

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        session = node.config.stash[SESSION]
        node.workerinput["postgres"] = (session.start(), session.run)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[SESSION] = PostgresSession(os.environ.get(NAMED_SERVER) or None)
        if config.pluginmanager.hasplugin("xdist"):
            config.pluginmanager.register(Controller())


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session is not None:
        session.close()


@pytest.fixture(scope="session")
def databases(pytestconfig: pytest.Config) -> Iterator[postgres.Databases]:
    """This test process's databases on the run's server, which starts with the first test that needs it."""
    workerinput = getattr(pytestconfig, "workerinput", None)
    if workerinput is None:
        session = pytestconfig.stash[SESSION]
        found = postgres.Databases(session.start(), session.run, "main")
    else:
        url, run = workerinput["postgres"]
        found = postgres.Databases(url, run, workerinput["workerid"])
    yield found
    found.close()


# ---------------------------------------------------------------------------------------------------------------------
# Databases of one test


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    return cast("str", request.param)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file that nobody has open, to be copied."""
    from tenure.sqlite import sqlite3

    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    postgres.migrate(f"sqlite:///{path}")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    wal = path.with_name(f"{path.name}-wal")
    assert not wal.exists() or not wal.stat().st_size, "a connection to the SQLite template was left open"
    return path


@pytest.fixture
def postgres_url(databases: postgres.Databases) -> Iterator[str]:
    url = databases.main()
    yield url
    left = databases.end_leftovers(url)
    assert not left, f"the test left transactions open: {left}"


@pytest.fixture
def fresh_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Each call empties or makes the database: on PostgreSQL the process's only one, on SQLite a new file."""
    made = 0

    def fresh(backend: str) -> str:
        nonlocal made
        made += 1
        if backend == "postgresql":
            url = cast("str", request.getfixturevalue("postgres_url"))
            request.getfixturevalue("databases").empty(url)
            return url
        path = tmp_path / f"tenure{made}.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        return f"sqlite:///{path}"

    return fresh


@pytest.fixture
def database_url(backend: str, fresh_database: Callable[[str], str]) -> str:
    return fresh_database(backend)


@pytest.fixture
def bare_url(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if backend == "sqlite":
        return f"sqlite:///{tmp_path / 'bare.db'}"
    return cast("str", request.getfixturevalue("scratch_postgres")())


@pytest.fixture
def scratch_postgres(databases: postgres.Databases) -> Iterator[Callable[..., str]]:
    """Databases are dropped, with whatever is connected to them, when the test ends."""
    made: list[str] = []

    def scratch(*, migrated: bool = False, template: str | None = None) -> str:
        made.append(databases.scratch(databases.template() if migrated else template))
        return made[-1]

    yield scratch
    for url in made:
        databases.drop(url)


@pytest.fixture
def postgres_server() -> Iterator[postgres.Server]:
    with postgres.running_server() as server:
        yield server
