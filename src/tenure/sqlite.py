"""The SQLite build that Tenure uses, as a DB-API module: `from tenure.sqlite import sqlite3`.

Builds before 3.51.3 (with back-ports in 3.50.7 and 3.44.6) can lose committed transactions in WAL mode when two
connections write and checkpoint at the same instant (sqlite.org/wal.html#walresetbug). The standard module is taken
when its build is mended, else `pysqlite3` when it is installed and mended, else the standard module, for which
`wal_safe` is False and the engine keeps to a rollback journal.
"""

from __future__ import annotations

import importlib
import sqlite3 as standard
from types import ModuleType

OLDEST = (3, 38, 0)
MENDED_SERIES = {(3, 44): 6, (3, 50): 7, (3, 51): 3}


def is_wal_safe(version: str) -> bool:
    """Whether the build named by `version` ("3.53.4") is free of the WAL-reset bug."""
    numbers = tuple(int(part) for part in version.split(".")[:3])
    major_minor, patch = numbers[:2], (*numbers, 0)[2]
    if major_minor in MENDED_SERIES:
        return patch >= MENDED_SERIES[(major_minor[0], major_minor[1])]
    return numbers >= (3, 53)


def _choose() -> ModuleType:
    if is_wal_safe(standard.sqlite_version):
        return standard
    try:
        bundled = importlib.import_module("pysqlite3")
    except ImportError:
        return standard
    return bundled if is_wal_safe(bundled.sqlite_version) else standard


sqlite3 = _choose()
version: str = sqlite3.sqlite_version
wal_safe: bool = is_wal_safe(version)
