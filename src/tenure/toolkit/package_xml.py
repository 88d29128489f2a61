"""Streaming XML out of a zip package: no document is held in memory, no entity is resolved."""

from __future__ import annotations

import zipfile
from typing import Protocol
from xml.parsers import expat

_PIECE = 1 << 18


class Handler(Protocol):
    """What reacts to the elements of a part; names come without their prefix."""

    def start(self, name: str, attributes: dict[str, str]) -> None: ...
    def end(self, name: str) -> None: ...
    def text(self, data: str) -> None: ...


def local(name: str) -> str:
    """The name without its prefix."""
    return name.rpartition(":")[2]


def stream(archive: zipfile.ZipFile, part: str, handler: Handler) -> None:
    """Feed one part through `handler`; an exception of the handler ends the reading at once."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = lambda name, attributes: handler.start(local(name), attributes)
    parser.EndElementHandler = lambda name: handler.end(local(name))
    parser.CharacterDataHandler = handler.text
    with archive.open(part) as source:
        while piece := source.read(_PIECE):
            parser.Parse(piece, False)
        parser.Parse(b"", True)


def _refuse_doctype(*_: object) -> None:
    raise ValueError("a document type declaration")
