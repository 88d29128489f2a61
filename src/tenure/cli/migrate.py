"""`tenure migrate`: bring a database to this program's schema."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from tenure.cli.faults import Code
from tenure.cli.options import Database, Json
from tenure.cli.output import print_json


def migrate(
    sql: Annotated[bool, Option("--sql", help="Print the SQL of what is due, and change nothing.")] = False,
    check: Annotated[bool, Option("--check", help="Change nothing; exit 3 when something is due.")] = False,
    database: Database = None,
    as_json: Json = False,
) -> int:
    """Apply what is due to the database. SQLite files and empty databases are migrated at first use anyway."""
    from tenure.cli.loading import database_of, explaining
    from tenure.db import migrate as migrations
    from tenure.errors import InvalidInput
    from tenure.settings import load

    if sql and check:
        raise InvalidInput("--sql and --check exclude each other", field="check")
    settings = load(database_url=database)
    found = database_of(settings.database_url, settings.schema)
    try:
        with explaining(found.name):
            if sql:
                print(migrations.sql(found), end="")
                return 0
            if check:
                return _say(found.name, [step.version for step in migrations.due(found)], False, as_json)
            return _say(found.name, migrations.apply(found), True, as_json)
    finally:
        found.dispose()


def _say(name: str, versions: list[int], applied: bool, as_json: bool) -> int:
    if as_json:
        print_json({"database": name, "applied" if applied else "due": versions})
    elif not versions:
        print(f"{name}: nothing is due")
    else:
        listed = ", ".join(map(str, versions))
        print(f"{name}: {'applied' if applied else 'due'}: schema {listed}")
    return Code.DUE if versions and not applied else Code.OK
