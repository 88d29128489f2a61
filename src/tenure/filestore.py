"""The local artifact store: files under generated names, whole or not at all.

A file is written beside its place, flushed to the disk, renamed, and its folder is flushed: a job that is marked done
never points to a file that a power failure took.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tenure.canon import uuid7
from tenure.errors import NotFound

CHUNK = 1 << 20
LOCATION = re.compile(r"[0-9a-f]{2}/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in the store; `location` finds it again."""

    location: str
    bytes: int
    sha256: str


class FileStore:
    """Artifacts in a folder, two levels deep. Names that users chose never become paths."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()

    def put(self, source: bytes | Path | BinaryIO) -> Stored:
        """Stores a copy of the bytes, the file or the open binary stream."""
        name = uuid7()
        folder = self.root / name[-2:]
        _make_folder(folder)
        partial, final = folder / f".{name}.partial", folder / name
        try:
            stored = self._write(partial, source, f"{name[-2:]}/{name}")
            partial.rename(final)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _flush_folder(folder)
        return stored

    def _write(self, partial: Path, source: bytes | Path | BinaryIO, location: str) -> Stored:
        total, digest = 0, hashlib.sha256()
        with partial.open("xb") as target, _opened(source) as chunks:
            for chunk in chunks:
                target.write(chunk)
                digest.update(chunk)
                total += len(chunk)
            target.flush()
            os.fsync(target.fileno())
        return Stored(location, total, digest.hexdigest())

    def path(self, location: str) -> Path:
        """Where a stored file is. NotFound when it is gone, or for a location that the store never gave out."""
        if not LOCATION.fullmatch(location):
            raise NotFound(f"no stored file {location!r}")
        path = (self.root / location).resolve()
        if not path.is_relative_to(self.root.resolve()) or not path.is_file():
            raise NotFound(f"no stored file {location!r}")
        return path

    def remove(self, location: str) -> None:
        """Deletes a stored file; one that is gone already is fine."""
        try:
            self.path(location).unlink(missing_ok=True)
        except NotFound:
            return


@contextmanager
def _opened(source: bytes | Path | BinaryIO) -> Iterator[Iterator[bytes]]:
    if isinstance(source, bytes):
        yield iter([source])
    elif isinstance(source, Path):
        with source.open("rb") as stream:
            yield iter(lambda: stream.read(CHUNK), b"")
    else:
        yield iter(lambda: source.read(CHUNK), b"")


def _make_folder(folder: Path) -> None:
    """Makes the folder and those above it; an entry in a folder is on the disk only when that folder was flushed."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _flush_folder(folder.parent)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
