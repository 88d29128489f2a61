"""The pages of the documentation: their tables, code blocks and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.postgres import ROOT

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")


def pages() -> list[Path]:
    """All but the decisions, which are records of their day."""
    return sorted(path for path in DOCS.rglob("*.md") if "decisions" not in path.parts)


def text(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int


def blocks(path: Path) -> list[Block]:
    source = path.read_text("utf-8")
    return [Block(m[1], m[2], source[: m.start()].count("\n") + 2) for m in BLOCK.finditer(source)]


def prose(path: Path) -> str:
    """Without code."""
    source = BLOCK.sub("", path.read_text("utf-8"))
    lines = [line for line in source.splitlines() if not line.startswith("    ")]
    return CODE.sub("", "\n".join(lines))


def rows(source: str, heading: str | None = None) -> list[list[str]]:
    """The cells of every table row below a heading, up to the next of its level; headers are left out."""
    if heading is not None:
        source = source.split(f"\n{heading}\n", 1)[1]
        level = heading.split(" ")[0]
        source = re.split(rf"^{level} ", source, maxsplit=1, flags=re.MULTILINE)[0]
    return list(_rows(source.splitlines()))


def _rows(lines: list[str]) -> Iterator[list[str]]:
    for number, line in enumerate(lines):
        is_header = number + 1 < len(lines) and lines[number + 1].startswith("|---")
        if line.startswith("|") and not line.startswith("|---") and not is_header:
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def names(cell: str) -> list[str]:
    """What stands in backticks."""
    return CODE.findall(cell)
