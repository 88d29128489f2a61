"""Bringing a database to this program's schema: forward only, one transaction, safe for many processes at once."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tenure.canon import uuid7
from tenure.db.clock import now
from tenure.db.engine import Database
from tenure.db.migrations import PROGRAM, STEPS, Step
from tenure.db.schema import fencing_token_counter, tenure_meta
from tenure.db.tx import Tx
from tenure.errors import SchemaTooNew, SchemaTooOld

LOCK = 0x7E_4012E  # an arbitrary number for PostgreSQL's transaction-level advisory lock


def migrate(url: str, schema: str = "tenure") -> list[int]:
    """Applies what is due to the database at `url`; returns the versions applied, lowest first."""
    database = Database(url, schema=schema)
    try:
        return apply(database)
    finally:
        database.dispose()


def apply(database: Database) -> list[int]:
    """Applies every step that is due. SchemaTooNew when the database is beyond this program."""
    return database.write(_apply, lookup=True)


def ensure(database: Database) -> None:
    """Checks that this program may run; migrates an empty database and any SQLite file.

    SchemaTooNew: upgrade the program. SchemaTooOld (PostgreSQL only): run `tenure migrate`.
    """
    version = database.read(installed)
    if version is None or (database.is_sqlite and version < PROGRAM):
        apply(database)
    database.read(lambda tx: _check(tx, database))


def due(database: Database) -> list[Step]:
    """The steps that the database still lacks."""
    version = database.read(installed) or 0
    return [step for step in STEPS if step.version > version]


def sql(database: Database) -> str:
    """The text of the steps that are due, as `tenure migrate --sql` prints it."""
    dialect = database.url.get_backend_name()
    return "".join(
        f"{statement};\n" for step in due(database) for statement in step.statements(dialect, database.schema)
    )


def installed(tx: Tx) -> int | None:
    """The schema version of the database; None when there is no Tenure in it."""
    schema = None if tx.one_writer else tx.schema
    if not sa.inspect(tx.connection).has_table(tenure_meta.name, schema=schema):
        return None
    return tx.execute(sa.select(tenure_meta.c.schema_version)).scalar_one()  # type: ignore[no-any-return]


def _check(tx: Tx, database: Database) -> None:
    row = tx.rows(sa.select(tenure_meta.c.schema_version, tenure_meta.c.oldest_program))[0]
    if row.oldest_program > PROGRAM:
        raise SchemaTooNew(
            f"{database.name} has schema {row.schema_version}, which this program (schema {PROGRAM}) cannot use: "
            f"install a newer tenure"
        )
    if row.schema_version < PROGRAM:
        raise SchemaTooOld(
            f"{database.name} has schema {row.schema_version}, this program needs {PROGRAM}: run 'tenure migrate'"
        )


def _apply(tx: Tx) -> list[int]:
    if not tx.one_writer:
        tx.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
    version = installed(tx)
    if version is not None:
        _refuse_newer(tx)
    steps = [step for step in STEPS if step.version > (version or 0)]
    for step in steps:
        _run(tx, step)
    return [step.version for step in steps]


def _refuse_newer(tx: Tx) -> None:
    oldest = tx.execute(sa.select(tenure_meta.c.oldest_program)).scalar_one()
    if oldest > PROGRAM:
        raise SchemaTooNew(f"the database needs a program of schema {oldest} or later, this one has {PROGRAM}")


def _run(tx: Tx, step: Step) -> None:
    for statement in step.statements(tx.connection.dialect.name, tx.schema):
        tx.connection.exec_driver_sql(statement)
    stamp: dict[str, Any] = {"schema_version": step.version, "oldest_program": step.oldest_program}
    if step.version > 1:
        tx.execute(sa.update(tenure_meta).values(**stamp))
        return
    tx.execute(sa.insert(tenure_meta).values(database_id=uuid7(), swept_at=now(), **stamp))
    if tx.one_writer:
        tx.execute(sa.insert(fencing_token_counter).values(last=0))
