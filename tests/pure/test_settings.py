"""Settings: defaults < file < environment < arguments, and one clear line for each value that cannot be."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tenure.errors import SettingsError
from tenure.settings import Settings, load


def written(folder: Path, text: str) -> dict[str, str]:
    """An environment that names a file with this text."""
    path = folder / "tenure.toml"
    path.write_text(text, "utf-8")
    return {"TENURE_SETTINGS": str(path)}


def test_the_defaults() -> None:
    assert load({}) == Settings()
    assert load({"TENURE_SETTINGS": ""}) == Settings()
    assert (Settings().database_url, Settings().poll_s) == ("sqlite:///tenure.db", 1.0)


def test_arguments_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    environment = written(tmp_path, 'poll = "2s"\nschema = "from_file"\nmax_rounds = 3\nnotify = false\n')
    assert load(environment) == Settings(poll_s=2.0, schema="from_file", max_rounds=3, notify=False)
    environment |= {"TENURE_SCHEMA": "from_environment", "TENURE_MAX_ROUNDS": "4"}
    assert load(environment).schema == "from_environment"
    found = load(environment, schema="from_argument", max_rounds=None)
    assert (found.schema, found.max_rounds, found.poll_s) == ("from_argument", 4, 2.0)


@pytest.mark.parametrize("name", [field.name.removesuffix("_s") for field in fields(Settings)])
def test_every_setting_has_its_variable(name: str) -> None:
    field = next(field.name for field in fields(Settings) if field.name in (name, f"{name}_s"))
    default = getattr(Settings(), field)
    text, value = {bool: ("no", False), int: ("7", 7), str: ("x", "x")}.get(type(default), ("90s", 90.0))
    found = load({f"TENURE_{name.upper()}": text})
    assert getattr(found, field) == value
    assert {f.name for f in fields(Settings) if getattr(found, f.name) != getattr(Settings(), f.name)} == {field}


def test_what_is_no_setting_in_the_environment_is_left_alone() -> None:
    assert load({"TENURE_TEST_POSTGRES": "x", "TENURE": "x", "PATH": "/bin"}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("POLL", "5", "poll: expected a duration with its unit"),
        ("POLL", "0s", "poll: must be more than nothing"),
        ("POLL", "", "poll: expected a duration"),
        ("APPROVAL", "-1d", "approval: expected a duration"),
        ("APPROVAL", "4000d", "approval: expected 0 to 10 years"),
        ("NOTIFY", "maybe", "notify: 'maybe' is neither true nor false"),
        ("PREPARE", "", "prepare: '' is neither true nor false"),
        ("MAX_ROUNDS", "0", "max_rounds: 0 is not within 1…1,000,000,000"),
        ("MAX_ROUNDS", "-1", "max_rounds: '-1' is not a whole number"),
        ("MAX_ROUNDS", "2.5", "max_rounds: '2.5' is not a whole number"),
        ("MAX_ROUNDS", "٣", "max_rounds: '٣' is not a whole number"),
        ("MAX_STEPS", "many", "max_steps: 'many' is not a whole number"),
        ("STUCK_THREADS", "1e3", "stuck_threads: '1e3' is not a whole number"),
        ("SCHEMA", "", "schema: '' is not a text"),
        ("SCHEMA", 'x"; DROP', "schema: 'x\"; DROP' is not a name"),
        ("SCHEMA", "x" * 51, "is not a name of a-z 0-9 _ with at most 50 characters"),
        ("ARTIFACTS", "  ", "artifacts: '  ' is not a text"),
        ("DATABASE_URL", "", "database_url: '' is not a text"),
    ],
)
def test_a_value_that_cannot_be_is_one_line(name: str, value: str, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({f"TENURE_{name}": value})
    assert str(caught.value).startswith("environment: ")
    assert text in str(caught.value)
    assert str(caught.value).count(f"{name.lower()}:") == 1
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("poll = 5", "poll: expected a duration"),
        ("max_rounds = true", "max_rounds: True is not a whole number"),
        ("max_rounds = 2.0", "max_rounds: 2.0 is not a whole number"),
        ("database_url = 5", "database_url: 5 is not a text"),
        ('pol = "5s"', "unknown setting 'pol'; known are approval, artifacts, database_url, "),
        ("[poll]\nx = 1", "poll: expected a duration"),
        ("poll = ", "tenure.toml: "),
        ("poll = 1\npoll = 2", "tenure.toml: "),
    ],
)
def test_a_file_that_cannot_be_is_one_line_that_names_it(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(written(tmp_path, text))
    assert "tenure.toml" in str(caught.value)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["gone.toml", "."])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=f"settings file .*{name}"):
        load({"TENURE_SETTINGS": str(tmp_path / name)})


@pytest.mark.parametrize("given", [{"poll": 3}, {"pol": "3s"}, {"max_rounds": 0}, {"schema": 7}], ids=str)
def test_an_argument_that_cannot_be(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"^argument: "):
        load({}, **given)


def test_a_file_in_another_encoding_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "tenure.toml"
    path.write_bytes(b'artifacts = "\xff"')
    with pytest.raises(SettingsError, match=r"settings file .*tenure\.toml"):
        load({"TENURE_SETTINGS": str(path)})
