"""`tenure migrate` on both databases: what is due, its SQL, and a database that a newer program made."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tenure.db.engine import Database
from tests.cli.conftest import Cli

NEWER = "UPDATE {}tenure_meta SET schema_version = 99, oldest_program = 99"


def test_migrate_from_nothing(cli: Cli, bare_url: str) -> None:
    due = cli("migrate", "--check", "--json", database=bare_url)
    assert due.code == 3
    assert due.json["due"][0] == 1
    sql = cli("migrate", "--sql", database=bare_url)
    assert sql.code == 0
    assert "CREATE TABLE" in sql.out
    assert cli("migrate", "--check", database=bare_url).code == 3, "printing applied nothing"
    applied = cli("migrate", "--json", database=bare_url)
    assert (applied.code, applied.json["applied"]) == (0, due.json["due"])
    nothing = cli("migrate", "--check", database=bare_url)
    assert nothing.code == 0
    assert nothing.out.endswith(": nothing is due\n")
    assert cli("migrate", "--sql", database=bare_url).out == ""
    assert cli("migrate", database=bare_url).out.endswith(": nothing is due\n")


def test_the_password_is_not_printed(cli: Cli, bare_url: str) -> None:
    shown = cli("migrate", "--json", database=bare_url).json["database"]
    if bare_url.startswith("postgresql"):
        assert ":***@" in shown
    else:
        assert shown == bare_url.removeprefix("sqlite:///")


@pytest.mark.parametrize("command", [["migrate"], ["jobs"], ["doctor"], ["demo", "--yes"]], ids=" ".join)
def test_a_newer_schema(cli: Cli, bare_url: str, command: list[str], tmp_path: object) -> None:
    cli("migrate", database=bare_url)
    newer = Database(bare_url)
    prefix = "" if newer.is_sqlite else "tenure."
    newer.write(lambda tx: tx.execute(sa.text(NEWER.format(prefix))))
    newer.dispose()
    out = ["--out", f"{tmp_path}/out"] if command[0] == "demo" else []
    ran = cli(*command, *out, database=bare_url)
    assert ran.code == 4
    said = ran.out if command == ["doctor"] else ran.error
    assert "99" in said
    assert "Traceback" not in ran.err
