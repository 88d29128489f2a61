"""Files that exist whole or not at all: temporary file in the same folder, fsync, rename, fsync of the folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.toolkit.faults import WorkbookError

PathLike = str | os.PathLike[str]


@contextmanager
def written_whole(target: PathLike) -> Iterator[Path]:
    """Give a temporary path beside `target`; when the block ends well it takes the place of `target`, else it is gone.

    Raises `WorkbookError` (`output_not_writable`) if the folder is missing or refuses; a full disk stays an `OSError`.
    """
    final = Path(target)
    _require_place(final)
    draft = final.with_name(f".{final.name[:80]}.{secrets.token_hex(6)}.tmp")
    try:
        yield draft
        _flush(draft)
        os.replace(draft, final)
        _flush(final.parent)
    except PermissionError as refused:
        raise WorkbookError(
            "output_not_writable",
            f"cannot write {final}: {refused.strerror}; choose a folder that this user may write to",
        ) from refused
    finally:
        draft.unlink(missing_ok=True)


def write_text_whole(target: PathLike, text: str) -> None:
    """Write `text` as UTF-8, whole or not at all."""
    with written_whole(target) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def _require_place(final: Path) -> None:
    if final.is_dir():
        raise WorkbookError("output_not_writable", f"cannot write {final}: it is a directory; give a file name")
    if not final.parent.is_dir():
        raise WorkbookError(
            "output_not_writable", f"cannot write {final}: folder {final.parent} does not exist; create it first"
        )


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
