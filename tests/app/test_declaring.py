"""`@app.tool`: its defaults, its options, and one clear line for each that cannot be."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tenure import AsyncToolContext, Call, Steps, Tenure, ToolContext
from tenure.errors import InvalidInput, NotFound, SettingsError, TenureError
from tenure.leases import LeaseClass


@pytest.fixture
def app(tmp_path: Any) -> Tenure:
    """Never opened: declaring needs no database."""
    return Tenure(f"sqlite:///{tmp_path / 'never.db'}")


def plain(n: int = 0) -> int:
    return n


async def asynchronous(n: int = 0) -> int:
    return n


def test_the_defaults_are_those_of_the_specification(app: Tenure) -> None:
    spec = app.tool()(plain).spec
    assert (spec.name, spec.mode, spec.approval, spec.writes, spec.on_conflict) == (
        "plain",
        "write",
        "never",
        None,
        "wait",
    )
    assert (spec.timeout_s, spec.idle_timeout_s, spec.max_runtime_s, spec.max_attempts) == (600, None, 12 * 3600, 3)
    assert spec.lease == LeaseClass(lease=90, heartbeat=30, missed=1, margin=20)
    assert (spec.limit, spec.limit_per_user, spec.priority) == (None, None, 0)
    assert (spec.provider, spec.model, spec.aliases, spec.example) == (None, None, (), None)
    assert spec.isolation == "thread"
    assert app.tool()(asynchronous).spec.isolation == "async"


def test_every_option_of_the_specification_can_be_given(app: Tenure) -> None:
    options: dict[str, Any] = {
        "name": "chosen",
        "mode": "only_missing",
        "approval": lambda call: call.arguments["n"] > 3,
        "on_refusal": "skip",
        "writes": "output",
        "on_conflict": "reject",
        "timeout": "2m",
        "idle_timeout": "30s",
        "max_runtime": "1h",
        "max_attempts": 5,
        "lease": "6s",
        "heartbeat": "1s",
        "missed": 2,
        "margin": "2s",
        "isolation": "process",
        "limit": 4,
        "limit_per_user": 1,
        "priority": 10,
        "provider": "acme",
        "model": "acme/large",
        "aliases": ["old"],
        "example": {"n": 1},
    }
    assert set(options) == set(inspect.signature(Tenure.tool).parameters) - {"self", "bare"}
    spec = app.tool(**options)(plain).spec
    assert (spec.name, spec.timeout_s, spec.idle_timeout_s, spec.max_runtime_s) == ("chosen", 120, 30, 3600)
    assert spec.lease == LeaseClass(lease=6, heartbeat=1, missed=2, margin=2)
    assert (spec.aliases, spec.priority, spec.isolation, spec.limit) == (("old",), 10, "process", 4)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"timeout": "90"}, "timeout: expected a duration with its unit"),
    ({"timeout": 90}, "timeout: expected a duration with its unit"),
    ({"timeout": None}, "timeout: expected a duration"),
    ({"timeout": "0s"}, "timeout must be more than nothing"),
    ({"timeout": "11y"}, "timeout: expected a duration"),
    ({"timeout": "4000d"}, "timeout: expected 0 to 10 years"),
    ({"timeout": "13h"}, "timeout 46800s <= max_runtime 43200s does not hold"),
    ({"idle_timeout": "-1s"}, "idle_timeout: expected a duration"),
    ({"idle_timeout": "0s"}, "idle_timeout must be more than nothing"),
    ({"max_runtime": "1 hour"}, "max_runtime: expected a duration"),
    ({"max_attempts": 0}, "max_attempts=0 is not a whole number within 1…10000"),
    ({"max_attempts": "3"}, "max_attempts='3' is not a whole number"),
    ({"max_attempts": None}, "max_attempts=None is not a whole number"),
    ({"priority": 11}, "priority=11 is not a whole number within 0…10"),
    ({"priority": True}, "priority=True is not a whole number"),
    ({"priority": 1.5}, "priority=1.5 is not a whole number"),
    ({"limit": 0}, "limit=0 is not a whole number"),
    ({"limit_per_user": -1}, "limit_per_user=-1 is not a whole number"),
    ({"lease": "80s"}, "80 > (1 + 1) × 30 + 20 = 80 is false"),
    ({"lease": "nan"}, "lease: expected a duration"),
    ({"heartbeat": "0s"}, "heartbeat must be positive"),
    ({"heartbeat": "90s"}, "90 > (1 + 1) × 90 + 20 = 200 is false"),
    ({"missed": -1}, "missed must be positive"),
    ({"missed": "1"}, "missed: expected a whole number, got '1'"),
    ({"margin": "x"}, "margin: expected a duration"),
    ({"mode": ""}, "mode: expected 1-200 characters"),
    ({"mode": "read write"}, "mode: expected 1-200 characters"),
    ({"approval": "always"}, "approval is 'never', 'required' or a function of the call, not 'always'"),
    ({"writes": "../x"}, "writes: expected 1-200 characters"),
    ({"on_conflict": "queue"}, "on_conflict is 'wait' or 'reject', not 'queue'"),
    ({"on_refusal": "retry"}, "on_refusal is 'fail' or 'skip', not 'retry'"),
    ({"isolation": "fork"}, "isolation is 'async', 'thread' or 'process', not 'fork'"),
    ({"isolation": "async"}, "isolation='async' does not fit a plain def"),
    ({"provider": 3}, "provider=3 is not a text"),
    ({"model": ""}, "model='' is not a text"),
    ({"aliases": "old"}, "aliases: expected a list of names, got 'old'"),
    ({"aliases": ["a b"]}, "aliases: expected 1-200 characters"),
    ({"aliases": [None]}, "aliases: expected a list of names"),
    ({"example": {"m": 1}}, "example: m: no such parameter"),
    ({"example": {"n": "many"}}, "example: n: Input should be a valid integer"),
]


@pytest.mark.parametrize(("options", "text"), WRONG, ids=[f"{next(iter(o.items()))}" for o, _ in WRONG])
def test_an_option_that_cannot_be_is_one_line_with_the_tool_and_the_option(
    app: Tenure, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        app.tool(**options)(plain)
    assert text in str(caught.value)
    assert str(caught.value).startswith("tool 'plain': ")
    assert "\n" not in str(caught.value)
    assert "plain" not in app.program.tools, "what was refused is not registered"


def test_an_async_function_runs_on_the_loop_only(app: Tenure) -> None:
    for isolation in ("thread", "process"):
        with pytest.raises(SettingsError, match="does not fit an async def"):
            app.tool(isolation=isolation)(asynchronous)


def test_the_parentheses_are_asked_for(app: Tenure) -> None:
    with pytest.raises(SettingsError, match=r"write @app\.tool\(\) with its parentheses"):
        app.tool(plain)  # type: ignore[arg-type]  # wrong on purpose


def test_a_process_tool_must_be_importable(app: Tenure) -> None:
    def inner(n: int) -> int:
        return n

    with pytest.raises(SettingsError, match="tool 'inner': isolation='process' needs a function at the top of a mod"):
        app.tool(isolation="process")(inner)


def starred(*numbers: int) -> None: ...
def double_starred(**options: int) -> None: ...
def positional(n: int, /) -> None: ...
def unknown_hint(n: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037 - wrong on purpose
def no_schema(n: Tenure) -> None: ...


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (starred, "parameter *numbers: 'int': only named parameters"),
        (double_starred, "parameter **options: 'int': only named parameters"),
        (positional, "parameter n: 'int': only named parameters"),
        (unknown_hint, "a type hint cannot be resolved: name 'Nowhere'"),
        (no_schema, "Unable to generate pydantic-core schema"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_function_that_cannot_be_stored_and_replayed(app: Tenure, fn: Callable[..., Any], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        app.tool()(fn)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["tenure.plan", "tenure.mine", "with blank", "x" * 201, "é"])
def test_names_that_no_tool_may_have(app: Tenure, name: str) -> None:
    with pytest.raises(InvalidInput, match="tool name"):
        app.tool(name=name)(plain)


def test_a_name_or_alias_belongs_to_one_tool(app: Tenure) -> None:
    app.tool(aliases=["old"])(plain)
    for name in ("plain", "old"):
        with pytest.raises(SettingsError, match=f"tool '{name}' is registered twice"):
            app.tool(name=name)(asynchronous)
    with pytest.raises(SettingsError, match="tool 'plain' is registered twice"):
        app.tool(name="new", aliases=["plain"])(asynchronous)
    assert app.program.tools.names() == ["old", "plain"]
    assert app.program.tools.get("old").fn is plain
    with pytest.raises(NotFound, match="no tool 'gone' is registered here; known: plain"):
        app.program.tools.get("gone")


def test_a_tool_is_still_the_function(app: Tenure) -> None:
    @app.tool(name="greeting")
    def greet(ctx: ToolContext | None, who: str) -> str:
        """Greets."""
        return f"hello {who}"

    assert greet(None, "you") == greet(None, who="you") == "hello you"
    assert (greet.name, greet.__doc__, greet.__module__) == ("greeting", "Greets.", __name__)
    assert repr(greet) == "<Tool greeting>"
    assert "who: 'str'" in str(inspect.signature(greet))


def test_the_context_is_found_by_its_hint_or_its_name(app: Tenure) -> None:
    def hinted(c: ToolContext, n: int) -> None: ...
    def named(n: int, ctx: Any = None) -> None: ...
    async def awaited(c: AsyncToolContext, n: int) -> None: ...
    def without(n: int) -> None: ...

    found = {fn.__name__: app.tool()(fn).spec for fn in (hinted, named, awaited, without)}
    assert {name: spec.context for name, spec in found.items()} == {
        "hinted": "c",
        "named": "ctx",
        "awaited": "c",
        "without": None,
    }
    assert {tuple(spec.arguments.model_fields) for spec in found.values()} == {("n",)}


def test_recipes_have_commands_of_their_own(app: Tenure) -> None:
    app.recipe("close_month")(lambda turn: Steps())
    with pytest.raises(SettingsError, match="command 'close_month' has two recipes"):
        app.recipe("close_month")(lambda turn: Steps())
    with pytest.raises(InvalidInput, match="command: expected 1-200 characters"):
        app.recipe("close month")(lambda turn: Steps())


def test_an_approval_function_sees_the_call(app: Tenure) -> None:
    def policy(call: Call) -> bool:
        return bool(call.arguments["n"] > 10)

    assert app.tool(approval=policy)(plain).spec.approval is policy


def test_every_refusal_is_one_of_tenures_own(app: Tenure) -> None:
    """Nothing that an option can be makes the decorator end in an error of Python's."""
    for option in set(inspect.signature(Tenure.tool).parameters) - {"self", "bare"}:
        values: list[Any] = [object(), -1, "\x00", [], float("nan")]
        for value in values:
            try:
                app.tool(**{option: value})(plain)
            except TenureError:
                continue
            app.program.tools._specs.clear()
            app.program.tools._aliases.clear()
            assert (option, value) == ("aliases", []), f"{option}={value!r} was taken"
