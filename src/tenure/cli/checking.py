"""Checks of what was typed, each with one line that says what would be right."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any


def one_of(given: str | None, words: type[StrEnum], field: str) -> str | None:
    """The word, if it is one of them. InvalidInput lists them."""
    from tenure.errors import InvalidInput

    if given is not None and given not in list(words):
        raise InvalidInput(f"--{field} {given!r} is not known; right is one of {', '.join(words)}", field=field)
    return given


def json_value(text: str | None, field: str) -> Any:
    """The value of JSON text. InvalidInput says where it cannot be read."""
    from tenure.errors import InvalidInput

    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        hint = "text goes in quotes of its own, as in '\"text\"'"
        raise InvalidInput(f"--{field} is not JSON ({error}); {hint}", field=field) from None
