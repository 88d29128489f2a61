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
# NaN must come out as NaN, to be refused: by default it would become null.
_NUMBERS = ConfigDict(ser_json_inf_nan="constants")


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
        try:
            return self._validated(arguments)
        except RecursionError:
            raise InvalidInput(f"{self.name}: the input holds itself, or is too deep", field="input") from None

    def _validated(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(arguments, Mapping):
            raise InvalidInput(f"{self.name}: expected arguments by name, got {type(arguments).__name__}", "input")
        model = self._model({name: _plain(value) for name, value in arguments.items()})
        for name in model.model_fields_set:
            _refuse_bytes(getattr(model, name), f"{self.name}: {name}", name)
        try:
            dumped = model.model_dump(mode="json", warnings="error", round_trip=True)
            canon.encode(dumped)
        except ResultNotSerializable as error:
            where = str(error.detail.get("path", "$")).removeprefix("$").lstrip(".") or "input"
            raise InvalidInput(f"{self.name}: {str(error).removeprefix('$.')}", field=where) from None
        except (PydanticSerializationError, ValueError) as error:
            raise InvalidInput(f"{self.name}: {error}", field="input") from None
        self._compare(model, dumped)
        return dumped

    def _compare(self, model: pydantic.BaseModel, dumped: dict[str, Any]) -> None:
        """What will run is what was given: a value that its stored form does not bring back is refused, such as a
        date where no hint says so, or a secret that serializes as asterisks."""
        again = self._model(dumped)
        for name in type(model).model_fields:
            given = getattr(model, name)
            if given != getattr(again, name):
                kind = type(given).__name__
                text = f"{self.name}: {name}: this {kind} does not come back from JSON as it was given"
                raise InvalidInput(f"{text}: give the parameter a type hint, or pass JSON values", field=name)

    def _model(self, values: Mapping[str, Any]) -> pydantic.BaseModel:
        try:
            return self.arguments.model_validate(dict(values))
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            text = "no such parameter" if first["type"] == "extra_forbidden" else first["msg"]
            raise InvalidInput(f"{self.name}: {where}: {text}", field=where) from None

    def bound(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments of the function from a stored input, as its hints type them. InvalidInput as above."""
        model = self._model(stored)
        return {name: getattr(model, name) for name in type(model).model_fields}

    def encoded(self, value: Any) -> str:
        """The result as strict JSON text. ResultNotSerializable says where it does not fit."""
        try:
            plain = self.result.dump_python(value, mode="json", warnings="error")
            _check_keys(value, plain, "$")
            self.decoded(plain)  # whoever waits for the result must be able to read it
            return canon.encode(plain)
        except ResultNotSerializable:
            raise
        except Exception as error:  # noqa: BLE001  (whatever a user's serializer raises)
            text = " ".join(str(error).split())
            raise ResultNotSerializable(f"{self.name}: {text}") from None

    def decoded(self, stored: Any) -> Any:
        """A stored result as the function's return hint types it. InvalidInput when the hint is another since."""
        try:
            return self.result.validate_python(stored)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(["result", *(str(part) for part in first["loc"])])
            raise InvalidInput(f"{self.name}: {where}: {first['msg']}", field=where) from None


def _check_keys(value: Any, plain: Any, path: str) -> None:
    """Keys that are one text in JSON (1 and "1") would lose all values but one."""
    if isinstance(value, Mapping) and isinstance(plain, dict):
        if len(plain) < len(value):
            raise ResultNotSerializable(f"{path}: keys that differ in Python are the same text in JSON")
        for (key, inner), stored in zip(value.items(), plain.values(), strict=False):
            _check_keys(inner, stored, f"{path}.{key}")
    elif isinstance(value, (list, tuple)) and isinstance(plain, list):
        for place, (inner, stored) in enumerate(zip(value, plain, strict=False)):
            _check_keys(inner, stored, f"{path}[{place}]")


def _plain(value: Any) -> Any:
    """Pydantic arguments as data, so that a subclass instance passes a field of another model type too.

    In Python's types, not JSON's: the JSON of a secret is a mask, which must be refused and never run.
    """
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(round_trip=True)
    if type(value) is dict:
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if type(value) is list else value


def _refuse_bytes(value: Any, where: str, field: str) -> None:
    """Some bytes are text and would pass, until the first that are not."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise InvalidInput(f"{where}: bytes are not JSON: store them as an artifact and pass its id", field=field)
    if isinstance(value, pydantic.BaseModel):
        value = dict(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            _refuse_bytes(each, where, field)


def declare(fn: Callable[..., Any], *, name: str | None = None, **options: Any) -> ToolSpec:
    """A ToolSpec from a function and its decorator's options. SettingsError or InvalidInput when it cannot run."""
    chosen = canon.name(getattr(fn, "__name__", "") if name is None else name, "tool name")
    if chosen.startswith(INTERNAL):
        raise InvalidInput(f"tool name {chosen!r}: names that begin with {INTERNAL!r} are Tenure's own", field="name")
    is_async = inspect.iscoroutinefunction(fn)
    isolation: Any = options.pop("isolation", None)
    if isolation is None:
        isolation = "async" if is_async else "thread"
    if isolation not in ("async", "thread", "process"):
        raise SettingsError(f"tool {chosen!r}: isolation is 'async', 'thread' or 'process', not {isolation!r}")
    if isolation == "process" and "<locals>" in fn.__qualname__:
        raise SettingsError(f"tool {chosen!r}: isolation='process' needs a function at the top of a module")
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
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=(), **_NUMBERS)
    try:
        model = pydantic.create_model(f"{name} arguments", __config__=config, **fields)
        result = _adapter(hints.get("return", Any))
    except pydantic.errors.PydanticUserError as error:
        raise SettingsError(f"tool {name!r}: {str(error).splitlines()[0]}") from None
    return context, model, result


def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint, config=_NUMBERS)
    except pydantic.errors.PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(hint)  # a model has its own configuration


def _check(spec: ToolSpec) -> None:
    try:
        spec.lease.check("lease class")
        _check_numbers(spec)
        _check_words(spec)
        _check_example(spec)
    except (SettingsError, InvalidInput) as error:
        raise SettingsError(f"tool {spec.name!r}: {error}") from None


def _check_example(spec: ToolSpec) -> None:
    if spec.example is not None:
        try:
            spec.validated(spec.example)
        except InvalidInput as error:
            raise SettingsError(f"example: {str(error).removeprefix(f'{spec.name}: ')}") from None


def _check_numbers(spec: ToolSpec) -> None:
    for option in ("timeout_s", "idle_timeout_s", "max_runtime_s"):
        if getattr(spec, option) == 0:
            raise SettingsError(f"{option.removesuffix('_s')} must be more than nothing")
    if spec.timeout_s > spec.max_runtime_s:
        raise SettingsError(f"timeout {spec.timeout_s:g}s <= max_runtime {spec.max_runtime_s:g}s does not hold")
    ranges = {"max_attempts": (1, 10_000), "priority": (0, 10), "limit": (1, 10**6), "limit_per_user": (1, 10**6)}
    for option, (low, high) in ranges.items():
        value = getattr(spec, option)
        is_absent = value is None and option.startswith("limit")
        if not is_absent and not (type(value) is int and low <= value <= high):
            raise SettingsError(f"{option}={value!r} is not a whole number within {low}…{high}")


def _check_words(spec: ToolSpec) -> None:
    if spec.approval not in ("never", "required") and not callable(spec.approval):
        raise SettingsError(f"approval is 'never', 'required' or a function of the call, not {spec.approval!r}")
    if spec.on_conflict not in ("wait", "reject"):
        raise SettingsError(f"on_conflict is 'wait' or 'reject', not {spec.on_conflict!r}")
    if spec.on_refusal not in ("fail", "skip"):
        raise SettingsError(f"on_refusal is 'fail' or 'skip', not {spec.on_refusal!r}")
    for option in ("provider", "model"):
        value = getattr(spec, option)
        if value is not None and not (isinstance(value, str) and value.isprintable() and 1 <= len(value) <= 200):
            raise SettingsError(f"{option}={value!r} is not a text of 1 to 200 printable characters")
    if spec.writes is not None:
        canon.name(spec.writes, "writes")


class Registry:
    """Tools by name and by alias."""

    def __init__(self) -> None:
        self._specs: dict[str, ToolSpec] = {}
        self._aliases: dict[str, str] = {}

    def add(self, spec: ToolSpec) -> None:
        """Registers a tool. SettingsError when a name is taken."""
        names = (spec.name, *spec.aliases)
        for name in names:
            if name in self._specs or name in self._aliases or names.count(name) > 1:
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
