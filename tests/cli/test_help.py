"""Help is quick and complete, and the public names come when they are used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import tenure
from tenure.cli.root import command
from tests.cli.conftest import Cli

HEAVY = {"sqlalchemy", "psycopg", "fastapi", "pydantic", "starlette", "uvicorn", "openpyxl", "xlsxwriter"}


def commands(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every command and group."""
    yield path
    for name, child in getattr(node, "commands", {}).items():
        yield from commands(child, (*path, name))


def modules_after(code: str) -> set[str]:
    """The first names of all modules that are loaded when the code has run."""
    ending = "import sys; print(' '.join(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{ending}"], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    loaded = modules_after(f"from tenure.cli import main; assert main({arguments!r}) == 0")
    assert "typer" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("arguments", [["jobs", "--help"], ["demo", "--help"], ["--version"]])
def test_help_of_a_command_imports_what_typer_needs(arguments: list[str]) -> None:
    loaded = modules_after(f"from tenure.cli import main; assert main({arguments!r}) == 0")
    assert not loaded & (HEAVY - {"pydantic"})  # typer reads options by pydantic


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not modules_after("import tenure") & (HEAVY | {"typer", "rich"})


@pytest.mark.parametrize("path", list(commands(command())), ids=" ".join)
def test_every_command_explains_itself(cli: Cli, path: tuple[str, ...]) -> None:
    ran = cli(*path, "--help")
    assert ran.code == 0
    assert "Usage: tenure" in ran.out
    assert ran.err == ""


def test_every_public_name_is_there() -> None:
    for name in tenure.__all__:
        assert getattr(tenure, name) is not None
        assert name in dir(tenure)
    with pytest.raises(AttributeError, match="no attribute 'Tenuer'"):
        _ = tenure.Tenuer


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"tenure {tenure.__version__}\n"


def test_python_m_tenure_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tenure", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tenure {tenure.__version__}\n"
