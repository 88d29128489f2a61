"""What can be found wrong before anything is written."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE = "sales.xlsx"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The demo that was asked for. `source` None: the sample is to be made. Paths are absolute."""

    source: Path | None
    out: Path
    database_url: str
    makes_folder: bool
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """The workbook's file name."""
        return SAMPLE if self.source is None else self.source.name


def checked(file: Path | None, database: str | None, out: Path, *, yes: bool) -> Wanted:
    """The demo as asked for. InvalidInput, SettingsError, WorkbookError, MissingExtra: one line each."""
    from tenure.errors import InvalidInput
    from tenure.settings import load
    from tenure.toolkit import read_rules
    from tenure.toolkit.sample import SAMPLE_SETTINGS
    from tenure.toolkit.scan import scan

    if not yes and not sys.stdin.isatty():
        raise InvalidInput("demo asks a person before it publishes, and stdin is no terminal: add --yes to agree")
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"--out {out} is a file: give a folder, or the name of a new one", field="out")
    given = load(database_url=database)
    limit = {"max_rows": given.workbook_rows}
    settings = {**SAMPLE_SETTINGS, **limit} if file is None else {"title": f"{file.stem}, cleaned", **limit}
    _require_libraries()
    if file is not None:
        scan(file, read_rules(settings))
    place = out.absolute()
    url, is_own = _database(database, place)
    return Wanted(None if file is None else file.absolute(), place, url, is_own, settings)


def _database(database: str | None, out: Path) -> tuple[str, bool]:
    """The URL with an absolute path, and whether its folder is the demo's own."""
    from tenure.cli.loading import database_of

    if database is None:
        return f"sqlite:///{out / 'tenure.db'}", True
    place = database_of(database)
    return (f"sqlite:///{place.name}", False) if place.is_sqlite else (database, False)


def _require_libraries() -> None:
    from importlib.util import find_spec

    from tenure.errors import MissingExtra

    for name in ("python_calamine", "xlsxwriter", "openpyxl"):
        if find_spec(name) is None:
            raise MissingExtra("workbook support is not installed: pip install 'tenure[workbook]'")
