"""The tree: what is pinned, what is in which layer, and which names may not appear."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from tests.postgres import ROOT

PIN = re.compile(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+!]*")
EXTRAS = {"postgres", "server", "metrics", "workbook", "model", "s3", "crypto", "re2", "all", "dev"}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def own_files() -> list[Path]:
    """The files of the project, as far as this can be told without git."""
    folders = (ROOT / name for name in (".ci", "bench", "docs", "examples", "src", "tests"))
    found = [*ROOT.glob("*"), *(path for folder in folders for path in folder.rglob("*"))]
    made = re.compile(r"__pycache__|\..*_cache|\.hypothesis")
    return [path for path in found if path.is_file() and not any(map(made.fullmatch, path.relative_to(ROOT).parts))]


def test_constraints_pin_versions_and_name_no_place() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    assert lines == sorted(lines, key=lambda line: normal(line.split("==")[0]))


def test_every_declared_requirement_is_pinned() -> None:
    pinned = {normal(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    declared = project()["project"]
    wanted = [*declared["dependencies"], *(one for many in declared["optional-dependencies"].values() for one in many)]
    names = {normal(re.split(r"[\[<>=;! ]", requirement)[0]) for requirement in wanted}
    assert names - {"tenure"} - pinned == set()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_extras_have_their_final_names() -> None:
    assert set(project()["project"]["optional-dependencies"]) <= EXTRAS


def test_every_room_is_in_the_layers() -> None:
    contracts = project()["tool"]["importlinter"]["contracts"]
    layers = next(contract for contract in contracts if contract["name"] == "imports point down")
    listed = set(re.findall(r"\w+", " ".join(layers["layers"]))) | set(layers["exhaustive_ignores"])
    source = ROOT / "src" / "tenure"
    rooms = {path.stem for path in source.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert rooms - {"__init__", "__pycache__"} - listed == set()


def test_every_room_is_a_package() -> None:
    source = ROOT / "src" / "tenure"
    without = {path.parent for path in source.rglob("*.py") if not (path.parent / "__init__.py").exists()}
    assert without == set()


def test_version_is_said_once() -> None:
    import tenure

    assert tenure.__version__ == project()["project"]["version"]


def test_no_file_names_the_folder_that_it_was_written_in() -> None:
    if len(ROOT.parts) > 2:
        assert [path for path in own_files() if str(ROOT).encode() in path.read_bytes()] == []
