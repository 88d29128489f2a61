"""Tools: what a registered function declares, what it takes and returns, and where it is found by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_type_hints

import pydantic
from pydantic import ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError

from tenure import canon
from tenure.errors import InvalidInput, NotFound, ResultNotSerializable, SettingsError
from tenure.leases import DEFAULT_LEASE, LeaseClass

Isolation = Literal["async", "thread", "process"]
OnRefusal = Literal["fail", "skip"]
CONTEXT_NAMES = frozenset({"ToolContext", "AsyncToolContext"})
INTERNAL = "tenure."


@dataclass(frozen=True, slots=True)
class Call:
    """What an approval function or a policy sees of one call: final, validated arguments."""

    tool: str
    mode: str
    arguments: Mapping[str, Any]
    tenant_id: str
    session_id: str
    project_id: str | None
    user_id: str | None


Approval = Literal["never", "required"] | Callable[[Call], "Literal['never', 'required'] | bool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A declared tool. `*_s` are seconds. `on_refusal`: what becomes of an item that a person denies or lets expire."""

    name: str
    fn: Callable[..., Any]
    mode: str = "write"
    approval: Approval = "never"
    on_refusal: OnRefusal = "fail"
    writes: str | None = None
    on_conflict: Literal["wait", "reject"] = "wait"
    timeout_s: float = 600.0
    idle_timeout_s: float | None = None
    max_runtime_s: float = 12 * 3600.0
    max_attempts: int = 3
    lease: LeaseClass = DEFAULT_LEASE
    isolation: Isolation = "thread"
    limit: int | None = None
    limit_per_user: int | None = None
    priority: int = 0
    provider: str | None = None
    model: str | None = None
    aliases: tuple[str, ...] = ()
    example: Mapping[str, Any] | None = None
    context: str | None = None
    arguments: type[pydantic.BaseModel] = field(repr=False)
    result: TypeAdapter[Any] = field(repr=False)

    def validated(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as strict JSON values, exactly as they will be stored and run. InvalidInput names the first
        field that does not fit."""
        given = {name: _plain(value) for name, value in arguments.items()}
        try:
            dumped = self.arguments.model_validate(given).model_dump(mode="json", warnings="error")
            canon.encode(dumped)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(f"{self.name}: {where}: {first['msg']}", field=where) from None
        except (PydanticSerializationError, ResultNotSerializable, ValueError) as error:
            raise InvalidInput(f"{self.name}: {error}", field="input") from None
        return dumped

    def bound(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments of the function from a stored input, as its hints type them. InvalidInput as above."""
        try:
            model = self.arguments.model_validate(dict(stored))
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(f"{self.name}: {where}: {first['msg']}", field=where) from None
        return {name: getattr(model, name) for name in type(model).model_fields}

    def encoded(self, value: Any) -> str:
        """The result as strict JSON text. ResultNotSerializable says where it does not fit."""
        try:
            return canon.encode(self.result.dump_python(value, mode="json", warnings="error"))
        except ResultNotSerializable:
            raise
        except Exception as error:  # noqa: BLE001  (whatever a user's serializer raises)
            raise ResultNotSerializable(f"{self.name}: {error}") from None

    def decoded(self, stored: Any) -> Any:
        """A stored result as the function's return hint types it."""
        return self.result.validate_python(stored)


def _plain(value: Any) -> Any:
    """A pydantic argument as data, so that a subclass instance passes a field of another model type too."""
    return value.model_dump(mode="json") if isinstance(value, pydantic.BaseModel) else value


def declare(fn: Callable[..., Any], *, name: str | None = None, **options: Any) -> ToolSpec:
    """A ToolSpec from a function and its decorator's options. SettingsError or InvalidInput when it cannot run."""
    chosen = canon.name(name or getattr(fn, "__name__", ""), "tool name")
    if chosen.startswith(INTERNAL):
        raise InvalidInput(f"tool name {chosen!r}: names that begin with {INTERNAL!r} are Tenure's own", field="name")
    is_async = inspect.iscoroutinefunction(fn)
    isolation: Any = options.pop("isolation", None) or ("async" if is_async else "thread")
    if is_async != (isolation == "async"):
        raise SettingsError(
            f"tool {chosen!r}: isolation={isolation!r} does not fit {'an async' if is_async else 'a plain'} def"
        )
    context, arguments, result = _signature(fn, chosen)
    spec = ToolSpec(
        name=chosen, fn=fn, isolation=isolation, context=context, arguments=arguments, result=result, **options
    )
    _check(spec)
    return spec


def _signature(fn: Callable[..., Any], name: str) -> tuple[str | None, type[pydantic.BaseModel], TypeAdapter[Any]]:
    try:
        hints = get_type_hints(fn, include_extras=True)
    except NameError as error:
        raise SettingsError(f"tool {name!r}: a type hint cannot be resolved: {error}") from None
    context: str | None = None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(fn).parameters.values():
        hint = hints.get(parameter.name, Any)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise SettingsError(f"tool {name!r}: parameter {parameter}: only named parameters are stored and replayed")
        if parameter.name == "ctx" or getattr(hint, "__name__", "") in CONTEXT_NAMES:
            context = parameter.name
            continue
        fields[parameter.name] = (hint, ... if parameter.default is parameter.empty else parameter.default)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())
    try:
        model = pydantic.create_model(f"{name} arguments", __config__=config, **fields)
        result: TypeAdapter[Any] = TypeAdapter(hints.get("return", Any))
    except pydantic.errors.PydanticUserError as error:
        raise SettingsError(f"tool {name!r}: {str(error).splitlines()[0]}") from None
    return context, model, result


def _check(spec: ToolSpec) -> None:
    spec.lease.check(f"tool {spec.name!r}")
    if spec.timeout_s > spec.max_runtime_s:
        numbers = f"timeout {spec.timeout_s:g}s <= max_runtime {spec.max_runtime_s:g}s"
        raise SettingsError(f"tool {spec.name!r}: {numbers} does not hold")
    ranges = {"max_attempts": (1, 10_000), "priority": (0, 10), "limit": (1, 10**6), "limit_per_user": (1, 10**6)}
    for option, (low, high) in ranges.items():
        value = getattr(spec, option)
        if value is not None and not low <= value <= high:
            raise SettingsError(f"tool {spec.name!r}: {option}={value!r} is not within {low}…{high}")
    if spec.approval not in ("never", "required") and not callable(spec.approval):
        raise SettingsError(f"tool {spec.name!r}: approval is 'never', 'required' or a function of the call")
    if spec.on_conflict not in ("wait", "reject") or spec.on_refusal not in ("fail", "skip"):
        raise SettingsError(f"tool {spec.name!r}: on_conflict is 'wait' or 'reject', on_refusal 'fail' or 'skip'")
    if spec.writes is not None:
        canon.name(spec.writes, f"tool {spec.name!r}: writes")


class Registry:
    """Tools by name and by alias."""

    def __init__(self) -> None:
        self._specs: dict[str, ToolSpec] = {}
        self._aliases: dict[str, str] = {}

    def add(self, spec: ToolSpec) -> None:
        """Registers a tool. SettingsError when a name is taken."""
        for name in (spec.name, *spec.aliases):
            if name in self._specs or name in self._aliases:
                raise SettingsError(f"tool {name!r} is registered twice")
        self._specs[spec.name] = spec
        self._aliases.update(dict.fromkeys(spec.aliases, spec.name))

    def get(self, name: str) -> ToolSpec:
        """The tool of this name or alias. NotFound lists what is registered."""
        spec = self._specs.get(self._aliases.get(name, name))
        if spec is None:
            known = ", ".join(sorted(self._specs)) or "none"
            raise NotFound(f"no tool {name!r} is registered here; known: {known}")
        return spec

    def __contains__(self, name: object) -> bool:
        return name in self._specs or name in self._aliases

    def names(self) -> list[str]:
        """Every name and alias under which a job may wait for these tools."""
        return sorted([*self._specs, *self._aliases])

    def specs(self) -> Iterable[ToolSpec]:
        return self._specs.values()
