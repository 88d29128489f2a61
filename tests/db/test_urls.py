"""Database URLs: what is understood, and what a refusal says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sqlalchemy as sa

from tenure.db.engine import Database, parse_url
from tenure.errors import DatabaseUnavailable, SettingsError


@pytest.mark.parametrize(
    ("url", "driver", "database"),
    [
        ("sqlite:///tenure.db", "sqlite", "tenure.db"),
        ("sqlite:////var/lib/t.db", "sqlite", "/var/lib/t.db"),
        ("postgresql://u:p@h/d", "postgresql+psycopg", "d"),
        ("postgresql+psycopg://u:p@h/d", "postgresql+psycopg", "d"),
        ("postgres://u:p@h:5433/d", "postgresql+psycopg", "d"),
    ],
)
def test_understood(url: str, driver: str, database: str) -> None:
    parsed = parse_url(url)
    assert (parsed.drivername, parsed.database) == (driver, database)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite://", "must be a file"),
        ("sqlite:///:memory:", "must be a file"),
        ("mysql://u:secret@h/d", "'mysql'"),
        ("tenure.db", "cannot be read"),
        ("", "cannot be read"),
        ("postgresql://u:secret@h:port/d", "cannot be read"),
    ],
)
def test_refused(url: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        Database(url)
    text = str(refused.value)
    assert "sqlite:///tenure.db" in text
    assert "secret" not in text
    assert "\n" not in text


def test_the_name_that_a_person_is_told(tmp_path: Path) -> None:
    assert Database("postgresql://u:secret@h:5433/d").name == "postgresql://u:***@h:5433/d"
    assert Database("sqlite:///x.db").name == os.path.abspath("x.db")


def test_nothing_is_opened_before_its_first_use(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    database = Database(f"sqlite:///{path}")
    assert not path.exists()
    database.dispose()


def test_a_file_that_cannot_be_used_is_said_so_at_once(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("no database " * 400)
    for path, said in ((tmp_path / "absent" / "t.db", "unable to open"), (text, "not a database")):
        database = Database(f"sqlite:///{path}")
        with pytest.raises(DatabaseUnavailable, match=f"{path.name}.*{said}"):
            database.read(lambda tx: tx.rows(sa.text("SELECT 1")))
        database.dispose()
