"""Whether a file of the app has changed since the process started."""

from __future__ import annotations

import os
import sys
from pathlib import Path


class Watch:
    """The Python files below the current folder that are imported, or lie in it where nothing could be imported."""

    def __init__(self) -> None:
        self._root = Path.cwd()
        self._seen: dict[str, float] = {}
        self.changed()

    def changed(self) -> str | None:
        """The first file that is not as it was, or None; a file that is seen for the first time is no change."""
        found: str | None = None
        for path in self._files():
            stamp = _stamp(path)
            if self._seen.setdefault(path, stamp) != stamp:
                found = found or path
                self._seen[path] = stamp
        return found

    def _files(self) -> set[str]:
        beside = {str(path) for path in self._root.glob("*.py")}
        loaded = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
        below = f"{self._root}{os.sep}"
        return beside | {path for path in loaded if path.startswith(below) and "site-packages" not in path}


def _stamp(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
