"""docs/reference/cli.md has every command, argument, option, default and exit code, and none that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.cli.faults import Code
from tenure.cli.root import command

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def sections() -> dict[str, str]:
    """The text under each `## tenure …` heading."""
    parts = re.split(r"^## tenure (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if path:
        yield " ".join(path), node
    for name, child in getattr(node, "commands", {}).items():
        yield from commands(child, (*path, name))


TREE = dict(commands(command()))


def test_the_commands_are_those_of_the_page() -> None:
    assert sorted(sections()) == sorted(TREE)


@pytest.mark.parametrize("name", sorted(TREE))
def test_arguments_and_options_are_those_of_the_page(name: str) -> None:
    rows: list[tuple[str, str]] = re.findall(r"^\| (`.+?) \| (.+) \|$", sections()[name], flags=re.MULTILINE)
    written = dict(rows)
    assert set(written) == {_written(parameter) for parameter in TREE[name].params}
    for parameter in TREE[name].params:
        meaning = written[_written(parameter)]
        assert parameter.help in meaning
        if parameter.default not in (None, False, ""):
            assert f"Default: `{parameter.default}`" in meaning
        if parameter.required and parameter.param_type_name == "option":
            assert "Required." in meaning


def _written(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar}`"
    value = f" {parameter.metavar}" if parameter.metavar else ""
    return ", ".join(f"`{option}{value}`" for option in parameter.opts)


@pytest.mark.parametrize("name", sorted(TREE))
def test_a_section_begins_with_its_summary(name: str) -> None:
    summary = " ".join(TREE[name].help.split("\n\n")[0].split())
    assert summary in " ".join(sections()[name].split())


def test_exit_codes_are_those_of_the_page() -> None:
    table = PAGE.read_text().split("## Exit codes")[1].split("##")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE)] == sorted(map(int, Code))
