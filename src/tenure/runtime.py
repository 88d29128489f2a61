"""What an open program holds: its database, its settings and its artifact store."""

from __future__ import annotations

import threading

from tenure.db.engine import Database
from tenure.db.migrate import ensure
from tenure.filestore import FileStore
from tenure.settings import Settings


class Runtime:
    """Opens nothing until first used; `ready` then checks the schema once."""

    def __init__(self, settings: Settings, database: Database | None = None) -> None:
        self.settings = settings
        self.files = FileStore(settings.artifacts)
        self._database = database or Database(settings.database_url, schema=settings.schema, prepare=settings.prepare)
        self._database.wakeup.notify = settings.notify
        self._checked = False
        self._checking = threading.Lock()

    @property
    def database(self) -> Database:
        """The database, its schema checked (and an empty one migrated) at first use."""
        if not self._checked:
            with self._checking:
                if not self._checked:
                    ensure(self._database)
                    self._checked = True
        return self._database

    def close(self) -> None:
        """Closes every connection; the next use opens anew."""
        self._database.dispose()
