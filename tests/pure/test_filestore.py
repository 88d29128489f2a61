"""The artifact store: whole files or none, on the disk before they are named, and no name that becomes a path (B67)."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenure.errors import NotFound
from tenure.filestore import CHUNK, FileStore
from tenure.flow.during import safe_name
from tests.postgres import ROOT

BODY = bytes(range(256)) * 5000


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store")


def files(store: FileStore) -> list[Path]:
    return [path for path in store.root.rglob("*") if path.is_file()] if store.root.exists() else []


@pytest.mark.parametrize("body", [b"", b"x", BODY], ids=len)
def test_bytes_files_and_streams_come_back_whole(store: FileStore, tmp_path: Path, body: bytes) -> None:
    source = tmp_path / "source"
    source.write_bytes(body)
    for given in (body, source, io.BytesIO(body)):
        stored = store.put(given)
        assert (stored.bytes, stored.sha256) == (len(body), hashlib.sha256(body).hexdigest())
        assert store.path(stored.location).read_bytes() == body
    assert len(files(store)) == 3, "nothing is overwritten, however equal"
    assert len(BODY) > CHUNK


def test_nothing_is_made_before_the_first_file(tmp_path: Path) -> None:
    FileStore(tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


class Torn(io.RawIOBase):
    """A stream that breaks off in the middle."""

    def __init__(self) -> None:
        self.left = 2

    def read(self, size: int = -1) -> bytes:
        self.left -= 1
        if not self.left:
            raise OSError("connection reset")
        return b"x" * 100


def test_a_source_that_breaks_off_leaves_no_file(store: FileStore) -> None:
    with pytest.raises(OSError, match="connection reset"):
        store.put(Torn())  # type: ignore[arg-type]  # a raw stream is enough
    assert files(store) == []


@pytest.mark.parametrize("source", ["gone", "."])
def test_a_source_that_is_no_file(store: FileStore, tmp_path: Path, source: str) -> None:
    with pytest.raises(OSError, match=r"No such file|Is a directory"):
        store.put(tmp_path / source)
    assert files(store) == []


def test_removing_twice_is_fine(store: FileStore) -> None:
    stored = store.put(b"x")
    store.remove(stored.location)
    store.remove(stored.location)
    with pytest.raises(NotFound, match="no stored file"):
        store.path(stored.location)


@pytest.mark.parametrize(
    "location", ["../out", "/etc/passwd", "..", "", ".", "a/../../out", "%2e%2e/out", "CON", "a\x00b"]
)
def test_a_location_that_leads_outside_is_not_found(store: FileStore, tmp_path: Path, location: str) -> None:
    (tmp_path / "out").write_text("secret")
    store.put(b"x")
    with pytest.raises(NotFound, match="no stored file"):
        store.path(location)
    store.remove(location)
    assert (tmp_path / "out").read_text() == "secret"


def test_a_link_that_leads_outside_is_not_found(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("secret")
    store.put(b"x")
    name = "01890a5d-ac96-774b-bcce-b302099a8057"
    (store.root / "aa").mkdir()
    (store.root / "aa" / name).symlink_to(tmp_path / "out")
    (store.root / "bb").symlink_to(tmp_path)
    (tmp_path / name).write_text("secret")
    for location in (f"aa/{name}", f"bb/{name}"):
        with pytest.raises(NotFound):
            store.path(location)
        store.remove(location)
    assert (tmp_path / "out").read_text() == (tmp_path / name).read_text() == "secret"


def test_the_store_itself_may_stand_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = FileStore(tmp_path / "link")
    assert store.path(store.put(b"x").location).read_bytes() == b"x"


NAMES = {
    "report.xlsx": "report.xlsx",
    "../../etc/passwd": "passwd",
    "/etc/passwd": "passwd",
    "C:\\x\\y.txt": "y.txt",
    "%2e%2e/x": "x",
    "..": "file",
    "": "file",
    "a\x00b\r\nX: 1": "abX: 1",
    "отчёт 1.xlsx": "отчёт 1.xlsx",
    ".hidden": "hidden",
    "CON": "CON",
}


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_users_name_is_only_shown(name: str) -> None:
    assert safe_name(name) == NAMES[name]


def test_a_long_name_is_cut(store: FileStore) -> None:
    assert len(safe_name("x" * 5000)) <= 200


# -- on the disk -------------------------------------------------------------------------------------------------------

RECORDING = """
import json, os, sys
from pathlib import Path
calls = []
def named(descriptor): return os.readlink(f"/proc/self/fd/{descriptor}")
fsync, rename, write = os.fsync, Path.rename, os.write
def recorded(descriptor):
    path = named(descriptor)
    calls.append(["fsync", path, os.path.getsize(path) if os.path.isfile(path) else None])
    return fsync(descriptor)
def moved(self, target):
    calls.append(["rename", str(self), str(target)])
    return rename(self, target)
os.fsync, Path.rename = recorded, moved
from tenure.filestore import FileStore
stored = FileStore(sys.argv[1]).put(b"x" * 3_000_000)
print(json.dumps([calls, stored.location]))
"""


def recorded(folder: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", RECORDING, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return json.loads(done.stdout)


def test_bytes_then_name_then_folder_reach_the_disk_in_this_order(tmp_path: Path) -> None:
    """What a job that is marked done points to survives a power failure, the folders on the way to it too."""
    root = (tmp_path / "deep" / "store").resolve()
    calls, location = recorded(root)
    final = root / location
    above = {str(root), str(root.parent), str(tmp_path.resolve())}
    written, moved, *flushed = [call for call in calls if call[1] not in above]
    assert written[0] == "fsync"
    assert written[2] == 3_000_000, "all bytes are flushed before the file has its name"
    assert moved == ["rename", written[1], str(final)]
    assert flushed == [["fsync", str(final.parent), None]]
    assert above <= {call[1] for call in calls}, "new folders are entries as well"


KILLED = """
import os, signal, sys
from tenure.filestore import FileStore
class Deadly:
    def __init__(self): self.left = int(sys.argv[2])
    def read(self, size):
        if not self.left: os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        return b"x" * size
FileStore(sys.argv[1]).put(Deadly())
"""


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_a_crash_leaves_no_half_file_under_a_final_name(store: FileStore, chunks: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(store.root), str(chunks)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=50,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    left = files(store)
    assert all(path.name.startswith(".") and path.name.endswith(".partial") for path in left), left
    for path in left:
        with pytest.raises(NotFound):
            store.path(str(path.relative_to(store.root)))
