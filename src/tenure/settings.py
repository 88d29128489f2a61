"""Settings: defaults < file < environment < what the program says. Checked when they are read, never later.

The file is TOML, named by `TENURE_SETTINGS`; the environment's names are `TENURE_` and the field in capitals.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tenure.canon import duration
from tenure.errors import InvalidInput, SettingsError

PREFIX = "TENURE_"
IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,49}")
MOST = 1_000_000_000


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
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
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
            return _lasting(value, name)
        if kind is bool:
            return _boolean(value)
        return _positive(value) if kind is int else _text(value, name)
    except (InvalidInput, ValueError) as error:
        raise SettingsError(f"{source}: {name}: {str(error).removeprefix(f'{name}: ')}") from None


def _lasting(value: Any, name: str) -> float:
    seconds = duration(value, name)
    if seconds == 0:
        raise ValueError("must be more than nothing")
    return seconds


def _boolean(value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if str(value).lower() not in words:
        raise ValueError(f"{value!r} is neither true nor false")
    return words[str(value).lower()]


def _positive(value: Any) -> int:
    if isinstance(value, (bool, float)) or not str(value).strip().isascii() or not str(value).strip().isdigit():
        raise ValueError(f"{value!r} is not a whole number")
    number = int(value)
    if not 1 <= number <= MOST:
        raise ValueError(f"{number} is not within 1…{MOST:,}")
    return number


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not a text")
    if name == "schema" and not IDENTIFIER.fullmatch(value):
        raise ValueError(f"{value!r} is not a name of a-z 0-9 _ with at most 50 characters")
    return value.strip()
