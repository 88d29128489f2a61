"""Scopes: a machine-checked range of arguments. A scope with a rule that it does not know matches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.canon import canonical


def covers(scope: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether every rule of the scope holds for the arguments; arguments without a rule are free.

    Rules: an exact value, a list of values, `{"min", "max"}` for numbers, `{"prefix"}` for text.
    """
    return all(name in arguments and _holds(rule, arguments[name]) for name, rule in scope.items())


def _holds(rule: Any, value: Any) -> bool:
    if isinstance(rule, Mapping):
        if rule and set(rule) <= {"min", "max"}:
            return _within(rule, value)
        if set(rule) == {"prefix"}:
            return isinstance(value, str) and isinstance(rule["prefix"], str) and value.startswith(rule["prefix"])
        return False
    if isinstance(rule, list):
        return any(_same(each, value) for each in rule)
    return _same(rule, value)


def _within(rule: Mapping[str, Any], value: Any) -> bool:
    numbers = [value, *rule.values()]
    if any(isinstance(number, bool) or not isinstance(number, (int, float)) for number in numbers):
        return False
    return bool(rule.get("min", value) <= value <= rule.get("max", value))


def _same(one: Any, other: Any) -> bool:
    return canonical(one) == canonical(other)
