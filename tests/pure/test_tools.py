"""Tools: declared, validated, bound, encoded. No database."""

from __future__ import annotations

import datetime as dt
import enum
from typing import Annotated, Any, Literal

import pydantic
import pytest

from tenure.canon import digest
from tenure.errors import InvalidInput, NotFound, ResultNotSerializable, SettingsError
from tenure.tools import Registry, ToolSpec, declare


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Part(pydantic.BaseModel):
    sku: str
    size: Size = Size.SMALL


class SpecialPart(Part):
    note: str = ""


class Computed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    a: int

    @pydantic.computed_field  # type: ignore[prop-decorator]  # mypy and pydantic disagree about decorated properties
    @property
    def double(self) -> int:
        return self.a * 2


def spec_of(**hints: Any) -> ToolSpec:
    """A tool that takes these parameters."""

    def take(**arguments: Any) -> Any: ...

    import inspect

    take.__annotations__ = hints
    take.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # as a decorator's wrapper has it
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint) for name, hint in hints.items()]
    )
    return declare(take)


@pytest.mark.parametrize(
    ("hint", "given", "stored", "bound"),
    [
        (int, 3, 3, 3),
        (int, "3", 3, 3),
        (float, 3, 3.0, 3.0),
        (bool, "yes", True, True),
        (str | None, None, None, None),
        (dt.date, dt.date(2026, 2, 28), "2026-02-28", dt.date(2026, 2, 28)),
        (dt.timedelta, dt.timedelta(minutes=1), "PT1M", dt.timedelta(minutes=1)),
        (Size, Size.LARGE, 2, Size.LARGE),
        (Literal["a", "b"], "b", "b", "b"),
        (list[Part], [Part(sku="x")], [{"sku": "x", "size": 1}], [Part(sku="x")]),
        (Part, SpecialPart(sku="x", size=Size.LARGE), {"sku": "x", "size": 2}, Part(sku="x", size=Size.LARGE)),
        (list[Part], [SpecialPart(sku="x")], [{"sku": "x", "size": 1}], [Part(sku="x")]),
        (Computed, Computed(a=2), {"a": 2}, Computed(a=2)),
        (dict[str, int], {"b": 1, "a": 2}, {"b": 1, "a": 2}, {"b": 1, "a": 2}),
        (tuple[int, str], (1, "x"), [1, "x"], (1, "x")),
        (Annotated[int, pydantic.Field(gt=0)], 1, 1, 1),
        (Any, {"deep": [1, 1.0, None]}, {"deep": [1, 1.0, None]}, {"deep": [1, 1.0, None]}),
    ],
    ids=str,
)
def test_there_and_back(hint: Any, given: Any, stored: Any, bound: Any) -> None:
    spec = spec_of(value=hint)
    found = spec.validated({"value": given})
    assert found == {"value": stored}
    assert repr(found) == repr({"value": stored})
    assert spec.bound(found) == {"value": bound}
    assert spec.validated(spec.bound(found)) == found, "what runs is stored as it was stored"
    assert digest(found)


@pytest.mark.parametrize(
    ("hint", "given", "text"),
    [
        (int, "x", "value: Input should be a valid integer"),
        (int, True, None),
        (Annotated[int, pydantic.Field(gt=0)], 0, "value: Input should be greater than 0"),
        (Literal["a", "b"], "c", "value: Input should be 'a' or 'b'"),
        (Size, 3, "value: Input should be 1 or 2"),
        (list[Part], [{"sku": "x"}, {"size": 1}], "value.1.sku: Field required"),
        (Computed, {"a": 1, "b": 2}, "value.b: no such parameter"),
        (dt.date, "yesterday", "value: Input should be a valid date"),
        (str, 5, "value: Input should be a valid string"),
        (pydantic.SecretStr, pydantic.SecretStr("x"), "value: this SecretStr does not come back"),
        (float, float("nan"), "value: nan is not JSON"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_one_line_with_its_place(hint: Any, given: Any, text: str | None) -> None:
    spec = spec_of(value=hint)
    if text is None:
        assert spec.validated({"value": given}) == {"value": 1}, "pydantic takes a bool for a number"
        return
    with pytest.raises(InvalidInput) as caught:
        spec.validated({"value": given})
    assert str(caught.value).startswith(f"take: {text}")
    assert "\n" not in str(caught.value)
    assert (caught.value.field or "").startswith("value")


def result_of(hint: Any) -> ToolSpec:
    def give() -> Any: ...

    give.__annotations__ = {"return": hint}
    return declare(give)


@pytest.mark.parametrize(
    ("hint", "value", "text"),
    [
        (Part, Part(sku="x"), '{"sku":"x","size":1}'),
        (Any, {"b": [1, 1.0], "a": "é"}, '{"b":[1,1.0],"a":"é"}'),
        (None, None, "null"),
        (dt.date, dt.date(2026, 2, 28), '"2026-02-28"'),
        (list[Part], [], "[]"),
        (Any, dt.date(2026, 2, 28), '"2026-02-28"'),
    ],
    ids=str,
)
def test_results_are_encoded_and_decoded(hint: Any, value: Any, text: str) -> None:
    spec = result_of(hint)
    assert spec.encoded(value) == text
    import json

    back = spec.decoded(json.loads(text))
    assert back == (value if hint is not Any else json.loads(text))


class Unwilling:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "many"),
        (int, None),
        (Part, {"sku": 1}),
        (Any, float("nan")),
        (float, float("inf")),
        (Any, object()),
        (Any, b"\xff"),
        (Any, "\ud800"),
        (Any, Unwilling()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_result_that_cannot_be_stored(hint: Any, value: Any) -> None:
    with pytest.raises(ResultNotSerializable):
        result_of(hint).encoded(value)


def test_a_result_of_an_older_release_that_no_longer_fits() -> None:
    with pytest.raises(InvalidInput, match=r"^give: result\.size: Input should be 1 or 2$") as caught:
        result_of(Part).decoded({"sku": "x", "size": 7})
    assert caught.value.field == "result.size"


def test_a_registry_finds_by_name_and_alias() -> None:
    def one() -> None: ...
    def two() -> None: ...

    registry = Registry()
    registry.add(declare(one, aliases=("first", "older")))
    registry.add(declare(two))
    assert registry.names() == ["first", "older", "one", "two"]
    assert [spec.name for spec in registry.specs()] == ["one", "two"]
    assert registry.get("older") is registry.get("one")
    assert "older" in registry
    assert "three" not in registry
    with pytest.raises(NotFound, match="no tool 'three' is registered here; known: one, two"):
        registry.get("three")
    with pytest.raises(NotFound, match="known: none"):
        Registry().get("three")


def test_a_refused_tool_takes_no_name() -> None:
    def one() -> None: ...
    def two() -> None: ...

    registry = Registry()
    registry.add(declare(one))
    with pytest.raises(SettingsError, match="tool 'one' is registered twice"):
        registry.add(declare(two, aliases=("free", "one")))
    assert registry.names() == ["one"]
    with pytest.raises(SettingsError, match="tool 'three' is registered twice"):
        registry.add(declare(two, name="three", aliases=("three",)))
    assert registry.names() == ["one"]
