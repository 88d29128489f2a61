"""Migrations: what they make, beside what, for how many at once, and whom they refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from tenure.db import migrate, migrations, schema
from tenure.db.engine import Database
from tenure.db.migrations import PROGRAM, STEPS, Step
from tenure.db.schema import tenure_meta
from tenure.errors import SchemaTooNew, SchemaTooOld
from tests import factory, freeze_schema
from tests import postgres as harness


@pytest.fixture
def bare(bare_url: str) -> Iterator[Database]:
    database = Database(bare_url)
    yield database
    database.dispose()


@contextmanager
def opened(url: str, **how: Any) -> Iterator[Database]:
    database = Database(url, **how)
    try:
        yield database
    finally:
        database.dispose()


# -- what is there -----------------------------------------------------------------------------------------------------

SQLITE_CATALOGUE = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
POSTGRES_CATALOGUE = """
SELECT 'column', table_name || '.' || column_name, concat_ws(' ', data_type, udt_name, is_nullable, column_default,
       collation_name, numeric_precision, character_maximum_length)
  FROM information_schema.columns WHERE table_schema = :schema
UNION ALL SELECT 'index', tablename || '.' || indexname, indexdef FROM pg_indexes WHERE schemaname = :schema
UNION ALL SELECT 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = CAST(:schema AS regnamespace)
UNION ALL SELECT 'sequence', sequencename,
       concat_ws(' ', data_type, start_value, increment_by, cycle, cache_size)
  FROM pg_sequences WHERE schemaname = :schema
ORDER BY 1, 2
"""


def catalogue(database: Database, name: str = "tenure") -> dict[tuple[str, str], str]:
    """Everything that the database says of its tables, in its own words."""
    if database.is_sqlite:
        found = database.read(lambda tx: tx.rows(sa.text(SQLITE_CATALOGUE)))
    else:
        found = database.read(lambda tx: tx.rows(sa.text(POSTGRES_CATALOGUE), {"schema": name}))
    return {(row[0], row[1]): " ".join(str(row[2]).split()).replace(f"{name}.", "") for row in found}


def create_from_metadata(database: Database) -> None:
    """Makes the tables as SQLAlchemy would, without the migrations."""
    with database.engine.begin() as connection:
        if database.is_sqlite:
            connection = connection.execution_options(schema_translate_map={schema.SCHEMA: None})
            schema.metadata.create_all(connection)
            schema.fencing_token_counter.create(connection)
        else:
            connection.exec_driver_sql("CREATE SCHEMA tenure")
            schema.metadata.create_all(connection)


def test_a_migrated_database_is_what_the_tables_say(bare: Database, tmp_path: Path, databases: Any) -> None:
    migrate.apply(bare)
    url = f"sqlite:///{tmp_path / 'metadata.db'}" if bare.is_sqlite else databases.scratch()
    try:
        with opened(url) as other:
            create_from_metadata(other)
            expected = catalogue(other)
        assert catalogue(bare) == expected
        assert len(expected) > len(schema.metadata.tables)
    finally:
        if not bare.is_sqlite:
            databases.drop(url)


def test_no_column_is_jsonb_and_keys_are_ordered_by_code_point(scratch_postgres: Callable[..., str]) -> None:
    with opened(scratch_postgres(migrated=True)) as database:
        columns = {name: what for (kind, name), what in catalogue(database).items() if kind == "column"}
    assert not [name for name, what in columns.items() if "jsonb" in what]
    assert " C" in columns["background_jobs.tool"]
    assert " C" in columns["agent_events.session_id"]


def test_the_texts_are_those_of_the_tables() -> None:
    folder = Path(migrations.__file__).parent
    for dialect in (postgresql.psycopg.dialect(), sqlite.dialect()):  # type: ignore[no-untyped-call]
        text = folder.joinpath(f"0001_initial.{dialect.name}.sql").read_text("utf-8")
        assert text == freeze_schema.initial(dialect), "run tests/freeze_schema.py"


def test_a_new_database_is_stamped(bare: Database) -> None:
    assert bare.read(migrate.installed) is None
    assert [step.version for step in migrate.due(bare)] == [step.version for step in STEPS]
    assert migrate.apply(bare) == [step.version for step in STEPS]
    [meta] = factory.rows(bare, tenure_meta)
    assert (meta["schema_version"], meta["oldest_program"]) == (PROGRAM, STEPS[-1].oldest_program)
    assert len(meta["database_id"]) == 36
    assert migrate.due(bare) == []
    assert factory.draw_token(bare) == 1


def test_a_second_time_changes_nothing(bare: Database) -> None:
    migrate.apply(bare)
    before = (catalogue(bare), factory.rows(bare, tenure_meta))
    assert migrate.apply(bare) == []
    migrate.ensure(bare)
    assert (catalogue(bare), factory.rows(bare, tenure_meta)) == before


def test_an_empty_database_migrates_at_first_use(bare: Database) -> None:
    migrate.ensure(bare)
    assert bare.read(migrate.installed) == PROGRAM


def test_the_text_that_is_printed_makes_the_same(bare: Database, tmp_path: Path, databases: Any) -> None:
    text = migrate.sql(bare)
    url = f"sqlite:///{tmp_path / 'printed.db'}" if bare.is_sqlite else databases.scratch()
    migrate.apply(bare)
    assert migrate.sql(bare) == ""
    with opened(url) as other:
        other.write(lambda tx: [tx.connection.exec_driver_sql(part) for part in text.split(";\n") if part.strip()])
        assert catalogue(other) == catalogue(bare)
    if not bare.is_sqlite:
        databases.drop(url)


# -- beside others -----------------------------------------------------------------------------------------------------


def test_foreign_tables_keep_their_rows(bare: Database) -> None:
    texts = ["CREATE TABLE mine (id int PRIMARY KEY)", "INSERT INTO mine VALUES (7)", "CREATE TABLE agent_mine (x int)"]
    bare.write(lambda tx: [tx.execute(sa.text(text)) for text in texts])
    migrate.ensure(bare)
    assert bare.read(lambda tx: tx.execute(sa.text("SELECT id FROM mine")).scalar_one()) == 7
    assert bare.read(lambda tx: tx.rows(sa.text("SELECT * FROM agent_mine"))) == []


@pytest.mark.parametrize("name", ["other", "Odd Name", 'qu"ote'])
def test_any_schema_name(scratch_postgres: Callable[..., str], name: str) -> None:
    url = scratch_postgres(migrated=True)
    with opened(url) as plain, opened(url, schema=name) as named:
        migrate.ensure(named)
        factory.session(named, "named")
        assert [row["session_id"] for row in factory.rows(named, schema.session_contexts)] == ["named"]
        assert factory.rows(plain, schema.session_contexts) == []
        tables = plain.read(lambda tx: set(sa.inspect(tx.connection).get_table_names(schema=name)))
        assert tables == {table.name for table in schema.metadata.sorted_tables}
        public = plain.read(lambda tx: sa.inspect(tx.connection).get_table_names(schema="public"))
        assert public == []
        ids = {row["database_id"] for each in (plain, named) for row in factory.rows(each, tenure_meta)}
        assert len(ids) == 2


def test_a_search_path_does_not_matter(scratch_postgres: Callable[..., str]) -> None:
    url = scratch_postgres(migrated=True)
    with opened(f"{url}?options=-csearch_path%3Dnowhere") as database:
        migrate.ensure(database)
        job = factory.job(database)
        assert factory.job_now(database, job.key) == job


# -- many at once ------------------------------------------------------------------------------------------------------

TEN = """
import os, sys
from tenure.db import migrate
from tenure.db.engine import Database

ready, go = os.pipe()
children = []
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        os.close(go)
        os.read(ready, 1)  # returns when the parent has closed its end: all start at once
        database = Database(sys.argv[1])
        migrate.ensure(database)
        database.dispose()
        os._exit(0)
    children.append(pid)
os.close(go)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
print(codes)
sys.exit(any(codes))
"""


def test_ten_processes_at_once(bare: Database, bare_url: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", TEN, bare_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=harness.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(factory.rows(bare, tenure_meta)) == 1
    assert bare.read(migrate.installed) == PROGRAM


# -- newer and older ---------------------------------------------------------------------------------------------------


def stamp(database: Database, version: int, oldest: int) -> None:
    values = {"schema_version": version, "oldest_program": oldest}
    database.write(lambda tx: tx.execute(sa.update(tenure_meta).values(values)))


def test_a_schema_that_has_left_the_program_behind_is_refused(bare: Database) -> None:
    migrate.apply(bare)
    stamp(bare, 99, 98)
    with pytest.raises(SchemaTooNew, match=r"schema 99.*schema 1\b.*newer tenure") as refused:
        migrate.ensure(bare)
    assert bare.name in str(refused.value)
    with pytest.raises(SchemaTooNew, match=r"schema 98 or later, this one has 1\b"):
        migrate.apply(bare)


def test_a_newer_schema_that_still_bears_the_program_is_used(bare: Database) -> None:
    migrate.apply(bare)
    stamp(bare, 99, PROGRAM)
    migrate.ensure(bare)
    assert migrate.apply(bare) == []
    assert bare.read(migrate.installed) == 99


@dataclass(frozen=True)
class NextStep(Step):
    """A step that a later program would bring."""

    texts: tuple[str, ...] = ()

    def statements(self, dialect: str, schema: str | None) -> list[str]:
        prefix = "" if schema is None else f'"{schema}".'
        return [text.format(prefix=prefix) for text in self.texts]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this the program of the next schema version."""

    def make(*texts: str) -> None:
        step = NextStep(PROGRAM + 1, "next", 1, texts)
        monkeypatch.setattr(migrate, "STEPS", (*STEPS, step))
        monkeypatch.setattr(migrate, "PROGRAM", PROGRAM + 1)

    return make


def test_an_older_schema(bare: Database, later: Callable[..., None]) -> None:
    """SQLite is migrated at first use; PostgreSQL only by a person."""
    migrate.apply(bare)
    later("ALTER TABLE {prefix}job_keys ADD COLUMN extra TEXT")
    if not bare.is_sqlite:
        with pytest.raises(SchemaTooOld, match=r"schema 1, this program needs 2: run 'tenure migrate'"):
            migrate.ensure(bare)
        assert bare.read(migrate.installed) == PROGRAM
        assert migrate.apply(bare) == [PROGRAM + 1]
    migrate.ensure(bare)
    [meta] = factory.rows(bare, tenure_meta)
    assert meta["schema_version"] == PROGRAM + 1
    assert bare.read(lambda tx: tx.rows(sa.text(f"SELECT extra FROM {_job_keys(bare)}"))) == []


def _job_keys(database: Database) -> str:
    return "job_keys" if database.is_sqlite else "tenure.job_keys"


def test_a_step_that_fails_leaves_nothing(bare: Database, later: Callable[..., None]) -> None:
    migrate.apply(bare)
    before = catalogue(bare)
    later("ALTER TABLE {prefix}job_keys ADD COLUMN extra TEXT", "ALTER TABLE {prefix}nowhere ADD COLUMN extra TEXT")
    with pytest.raises(DBAPIError, match="nowhere"):
        migrate.apply(bare)
    assert catalogue(bare) == before
    assert bare.read(migrate.installed) == PROGRAM
