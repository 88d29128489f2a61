"""Settings: defaults < file < environment < what the program says. Checked when they are read, never later.

The file is TOML, named by `TENURE_SETTINGS`; the environment's names are `TENURE_` and the field in capitals.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tenure.canon import duration
from tenure.errors import InvalidInput, SettingsError

PREFIX = "TENURE_"


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator may set. `*_s` are seconds, written as durations with a unit ("90s", "10m")."""

    database_url: str = "sqlite:///tenure.db"
    schema: str = "tenure"
    artifacts: str = "tenure-artifacts"
    notify: bool = True
    prepare: bool = True
    poll_s: float = 1.0
    approval_s: float = 7 * 86400.0
    max_input_bytes: int = 1_000_000
    max_rounds: int = 20
    max_steps: int = 100
    stuck_threads: int = 4
    workbook_rows: int = 200_000


def load(environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """The settings in force; `given` values of None count as not given. SettingsError names what is wrong."""
    environment = os.environ if environment is None else environment
    settings = Settings()
    path = environment.get(f"{PREFIX}SETTINGS")
    if path:
        settings = replace(settings, **_typed(_file(Path(path)), path))
    named = {name: environment[PREFIX + name.upper()] for name in _names() if PREFIX + name.upper() in environment}
    settings = replace(settings, **_typed(named, "environment"))
    chosen = {name: value for name, value in given.items() if value is not None}
    return replace(settings, **_typed(chosen, "argument"))


def _names() -> dict[str, str]:
    """The name that a person writes → the field: a duration is written without its unit's suffix."""
    return {field.name.removesuffix("_s"): field.name for field in fields(Settings)}


def _file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"settings file {path}: {error}") from None


def _typed(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    names = _names()
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise SettingsError(f"{source}: unknown setting {unknown[0]!r}; known are {', '.join(sorted(names))}")
    return {names[name]: _value(name, names[name], value, source) for name, value in values.items()}


def _value(name: str, field: str, value: Any, source: str) -> Any:
    kind = type(getattr(Settings(), field))
    try:
        if field.endswith("_s"):
            return duration(value, name)
        if kind is bool:
            return _boolean(value)
        return _positive(value) if kind is int else str(value)
    except (InvalidInput, ValueError) as error:
        raise SettingsError(f"{source}: {name}: {error}") from None


def _boolean(value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if str(value).lower() not in words:
        raise ValueError(f"{value!r} is neither true nor false")
    return words[str(value).lower()]


def _positive(value: Any) -> int:
    number = int(value)
    if number < 1:
        raise ValueError(f"{number} must be at least 1")
    return number
