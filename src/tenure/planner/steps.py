"""What a planner sees of a turn, and what it may answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tenure.errors import InvalidInput

REFERENCE = "$from"


@dataclass(frozen=True, slots=True)
class From:
    """A reference to an earlier step's output: `From("parse.file_id")`; dots divide parts, lists go by number."""

    path: str

    def stored(self) -> dict[str, str]:
        """The reference as it stands in stored arguments."""
        return {REFERENCE: self.path}


class Step:
    """One proposed call: a name of its own in the turn, a tool, its arguments (values or `From` references).

    `tool` is a registered tool or its name. `after(…)` adds dependencies that no argument shows; `optional()` says
    that the turn goes on without it when it fails.
    """

    def __init__(self, name: str, tool: Any, /, **arguments: Any) -> None:
        self.name = name
        self.tool: str = tool if isinstance(tool, str) else tool.name
        self.arguments: dict[str, Any] = {key: _stored(value) for key, value in arguments.items()}
        self.depends_on: list[str] = []
        self.is_optional = False

    def after(self, *names: str) -> Step:
        self.depends_on = list(dict.fromkeys([*self.depends_on, *names]))
        return self

    def optional(self) -> Step:
        self.is_optional = True
        return self

    def stored(self) -> dict[str, Any]:
        """The step as JSON values."""
        return {
            "name": self.name,
            "tool": self.tool,
            "arguments": self.arguments,
            "after": self.depends_on,
            "optional": self.is_optional,
        }

    @classmethod
    def read(cls, value: Any, where: str) -> Step:
        """A step from JSON values. InvalidInput names what is wrong in `where`."""
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{where} must be an object with name, tool and arguments", field=where)
        unknown = set(value) - {"name", "tool", "arguments", "after", "optional"}
        if unknown:
            raise InvalidInput(f"{where}.{min(unknown)} is not known", field=where)
        name, tool, arguments = value.get("name"), value.get("tool"), value.get("arguments", {})
        if not isinstance(name, str) or not isinstance(tool, str) or not isinstance(arguments, Mapping):
            raise InvalidInput(f"{where} must have name (text), tool (text) and arguments (object)", field=where)
        after = value.get("after", [])
        if not isinstance(after, list) or not all(isinstance(each, str) for each in after):
            raise InvalidInput(f"{where}.after must be a list of step names", field=where)
        step = cls(name, tool, **{str(key): argument for key, argument in arguments.items()}).after(*after)
        return step.optional() if value.get("optional") is True else step


def _stored(value: Any) -> Any:
    if isinstance(value, From):
        return value.stored()
    if isinstance(value, Mapping):
        return {key: _stored(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_stored(each) for each in value]
    return value


def references(value: Any) -> Iterator[str]:
    """The paths of every reference within stored arguments."""
    if isinstance(value, Mapping):
        if set(value) == {REFERENCE}:
            yield str(value[REFERENCE])
            return
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def resolved(value: Any, outputs: Mapping[str, Any]) -> Any:
    """Stored arguments with each reference replaced by its value. InvalidInput names one that leads nowhere."""
    if isinstance(value, Mapping):
        if set(value) == {REFERENCE}:
            return _followed(str(value[REFERENCE]), outputs)
        return {key: resolved(each, outputs) for key, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, outputs) for each in value]
    return value


def _followed(path: str, outputs: Mapping[str, Any]) -> Any:
    found: Any = outputs
    for part in path.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isascii() and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            raise InvalidInput(f"reference {path!r} leads nowhere at {part!r}", field=path)
    return found


class Steps:
    """The steps of the next round."""

    def __init__(self, *steps: Step) -> None:
        self.steps: Sequence[Step] = steps


@dataclass(frozen=True, slots=True)
class Final:
    """The answer that completes the turn, a JSON value."""

    output: Any = None


@dataclass(frozen=True, slots=True)
class ItemView:
    """An earlier step as a planner sees it."""

    name: str
    tool: str
    status: str
    arguments: Mapping[str, Any]
    output: Any
    error_code: str | None
    error_text: str | None


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn as a planner sees it. `round` is the one that is being planned, from 1."""

    tenant_id: str
    session_id: str
    turn_id: str
    project_id: str | None
    user_id: str | None
    input: Any
    command: str | None
    profile: str | None
    round: int
    steps: Sequence[Mapping[str, Any]] | None = None
    items: Sequence[ItemView] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""

    @property
    def outputs(self) -> dict[str, Any]:
        """Outputs of completed steps by name."""
        return {item.name: item.output for item in self.items if item.status == "completed"}


class Planner(Protocol):
    """Whatever decides on the next round. Called outside any transaction; it may be called again after a crash."""

    def next(self, turn: TurnView) -> Steps | Final: ...
