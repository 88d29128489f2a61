"""A tool's options: from what a person writes at `@app.tool(…)` to a `ToolSpec`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tenure.canon import duration
from tenure.canon import name as checked_name
from tenure.errors import InvalidInput, SettingsError
from tenure.leases import LeaseClass
from tenure.tools import ToolSpec, declare

DURATIONS = ("timeout", "idle_timeout", "max_runtime")


def declared(fn: Callable[..., Any], options: Mapping[str, Any]) -> ToolSpec:
    """The spec of a function under these options. SettingsError names the tool and the option that is wrong."""
    label = options["name"] or getattr(fn, "__name__", type(fn).__name__)
    rest = {key: value for key, value in options.items() if key not in (*DURATIONS, "lease", "heartbeat", "margin")}
    try:
        seconds = {f"{key}_s": _optional(options[key], key) for key in DURATIONS}
        lease = LeaseClass(
            duration(options["lease"], "lease"),
            duration(options["heartbeat"], "heartbeat"),
            _whole(rest.pop("missed"), "missed"),
            duration(options["margin"], "margin"),
        )
        rest["mode"] = checked_name(rest["mode"], "mode")
        rest["aliases"] = _names(rest["aliases"])
    except InvalidInput as error:
        raise SettingsError(f"tool {label!r}: {error}") from None
    return declare(fn, **{**rest, **seconds, "lease": lease})


def _optional(value: Any, field: str) -> float | None:
    """Seconds of a duration that may be left out; only `idle_timeout` can be."""
    return None if value is None and field == "idle_timeout" else duration(value, field)


def _whole(value: Any, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"{field}: expected a whole number, got {value!r}", field)
    return value


def _names(values: Any) -> tuple[str, ...]:
    is_list = isinstance(values, (list, tuple, set, frozenset))
    if not is_list or not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"aliases: expected a list of names, got {values!r}", "aliases")
    return tuple(checked_name(value, "aliases") for value in values)
