"""The databases that tests are given: which they are, where they listen, and that each test finds them empty."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from tenure.sqlite import sqlite3
from tests import postgres


def row_counts(url: str) -> dict[str, int]:
    """Rows of each table of Tenure in the database of `url`."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}
        connection.close()
        return counts
    with psycopg.connect(url) as session:
        found = session.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'tenure'").fetchall()
        query = sql.SQL("SELECT count(*) FROM {}")
        counts = {}
        for (name,) in found:
            count = session.execute(query.format(sql.Identifier("tenure", name))).fetchone()
            counts[name] = count[0] if count else -1
        return counts


def leave_a_row(url: str) -> None:
    """Puts a worker's heartbeat into the database, by the columns that the table demands."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute("CREATE TABLE left_behind (x)")
        connection.execute("INSERT INTO left_behind VALUES (1)")
        connection.commit()
        connection.close()
        return
    with psycopg.connect(url) as session:
        session.execute("CREATE SCHEMA IF NOT EXISTS tenure")
        session.execute("CREATE TABLE tenure.parent (id int PRIMARY KEY)")
        session.execute("CREATE TABLE tenure.child (id int PRIMARY KEY REFERENCES tenure.parent)")
        session.execute("INSERT INTO tenure.parent VALUES (1)")
        session.execute("INSERT INTO tenure.child VALUES (1)")


@pytest.mark.parametrize("turn", [1, 2])
def test_a_test_finds_no_rows_of_the_one_before(database_url: str, turn: int) -> None:
    counts = row_counts(database_url)
    assert "tenure_meta" in counts
    assert "left_behind" not in counts
    assert not {name: rows for name, rows in counts.items() if rows and name in {"background_jobs", "agent_events"}}


def test_a_bare_database_holds_nothing(bare_url: str) -> None:
    assert row_counts(bare_url) == {}


def test_emptying_does_not_mind_the_order_of_foreign_keys(
    scratch_postgres: Callable[..., str], databases: postgres.Databases
) -> None:
    url = scratch_postgres()
    leave_a_row(url)
    assert row_counts(url) == {"parent": 1, "child": 1}
    databases.empty(url)
    assert row_counts(url) == {"parent": 0, "child": 0}


def test_a_copy_has_the_rows_of_what_it_is_copied_from(scratch_postgres: Callable[..., str]) -> None:
    original = scratch_postgres()
    leave_a_row(original)
    assert row_counts(scratch_postgres(template=original)) == {"parent": 1, "child": 1}


def test_a_transaction_left_open_is_found_and_ended(
    scratch_postgres: Callable[..., str], databases: postgres.Databases
) -> None:
    url = scratch_postgres()
    with psycopg.connect(url) as idle, psycopg.connect(url) as left:
        idle.execute("SELECT 1")
        idle.commit()
        left.execute("SELECT 42")
        assert databases.end_leftovers(url, patience=0.1) == ["idle in transaction: SELECT 42"]
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")
        assert idle.execute("SELECT 1").fetchone() == (1,)


def test_the_server_is_recent(databases: postgres.Databases) -> None:
    with psycopg.connect(databases.server) as connection:
        assert connection.info.server_version >= 140000


def modes(*paths: Path) -> dict[Path, int]:
    return {path: stat.S_IMODE(path.stat().st_mode) for path in paths}


def test_a_server_of_our_own(postgres_server: postgres.Server) -> None:
    """It listens on loopback alone, wants its password, comes back on the same port after a crash."""
    url = postgres_server.url
    where = urlsplit(url)
    assert where.hostname == "127.0.0.1"
    with psycopg.connect(url) as connection:
        listen = "SELECT current_setting('listen_addresses'), current_setting('unix_socket_directories')"
        assert connection.execute(listen).fetchone() == ("127.0.0.1", "")
        postgres_server.tell("kill")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url, connect_timeout=10)
    postgres_server.tell("start")
    psycopg.connect(url, connect_timeout=10).close()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url.replace(f":{where.password}@", ":wrong@"), connect_timeout=10)


def test_a_server_changes_no_permissions_and_leaves_no_files() -> None:
    """Not of the tree, nor of any folder above it or above the server's programs."""
    package = Path(postgres.__file__)
    watched = {package, *package.parents, *(postgres.ROOT / ".venv").parents}
    for folder in (postgres.ROOT / "src", postgres.ROOT / "tests", postgres.wheel()):
        watched |= {folder, *folder.parents, *folder.rglob("*")}
    watched = {path for path in watched if path.exists() and "__pycache__" not in path.parts}
    before = modes(*watched)
    server = postgres.Server()
    folder = Path(str(server.about["data"])).parent
    assert folder.parent == Path(postgres.temporary_root())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    server.close()
    server.close()
    assert not folder.exists()
    assert modes(*(path for path in watched if path.exists())).items() <= before.items()


def test_the_server_ends_when_the_tests_are_killed() -> None:
    program = "import time; from tests import postgres; s = postgres.Server(); print(s.url, flush=True); time.sleep(60)"
    killed = subprocess.Popen([sys.executable, "-c", program], cwd=postgres.ROOT, stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    url = killed.stdout.readline().strip()
    psycopg.connect(url, connect_timeout=10).close()
    killed.kill()
    killed.wait(10)
    killed.stdout.close()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            psycopg.connect(url, connect_timeout=10).close()
        except psycopg.OperationalError:
            return
        time.sleep(0.05)
    pytest.fail("the server outlived the process that started it")
