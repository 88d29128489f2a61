"""Steps, references and the two planners that ship."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.canon import encode
from tenure.errors import InvalidInput
from tenure.planner import Final, From, GivenSteps, Recipe, Step, Steps, TurnView, references
from tenure.planner.steps import ItemView, resolved

TURN = TurnView("default", "s", "t", None, None, "input", "command", None, 1)


def item(name: str, output: Any = None, status: str = "completed") -> ItemView:
    return ItemView(name, "tool", status, {}, output, None, None)


def test_a_step_is_stored_and_read_back() -> None:
    step = Step("post", "ledger", receipt=From("charge.id"), rows=[From("a.0"), {"x": From("b")}], pair=(1, 2))
    stored = step.after("log", "charge", "log").optional().stored()
    assert stored == {
        "name": "post",
        "tool": "ledger",
        "arguments": {
            "receipt": {"$from": "charge.id"},
            "rows": [{"$from": "a.0"}, {"x": {"$from": "b"}}],
            "pair": [1, 2],
        },
        "after": ["log", "charge"],
        "optional": True,
    }
    assert Step.read(stored, "steps[0]").stored() == stored
    assert encode(stored)


def test_a_tool_may_be_named_by_itself() -> None:
    class Registered:
        name = "charge"

    assert Step("a", Registered()).tool == "charge"


def test_arguments_may_have_the_names_of_a_steps_own() -> None:
    step = Step("a", "t", name="n", tool="x", arguments=1)
    assert step.arguments == {"name": "n", "tool": "x", "arguments": 1}
    assert Step.read(step.stored(), "").stored() == step.stored()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "steps[2] must be an object with name, tool and arguments"),
        (["a"], "steps[2] must be an object"),
        ({"name": "a", "tool": "t", "args": {}}, "steps[2].args is not known"),
        ({"tool": "t"}, "steps[2] must have name (text), tool (text) and arguments (object)"),
        ({"name": "a", "tool": 1}, "steps[2] must have name"),
        ({"name": "a", "tool": "t", "arguments": []}, "steps[2] must have name"),
        ({"name": "a", "tool": "t", "after": "b"}, "steps[2].after must be a list of step names"),
        ({"name": "a", "tool": "t", "after": [1]}, "steps[2].after must be a list of step names"),
        ({"name": "a", "tool": "t", 1: 2}, "steps[2].1 is not known"),
    ],
    ids=str,
)
def test_what_is_no_step_says_where(value: Any, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Step.read(value, "steps[2]")
    assert str(caught.value).startswith(text)
    assert caught.value.field == "steps[2]"


@pytest.mark.parametrize("optional", [None, "yes", 1, False])
def test_only_true_makes_a_step_optional(optional: Any) -> None:
    assert not Step.read({"name": "a", "tool": "t", "optional": optional}, "").is_optional


def test_references_are_found_wherever_they_stand() -> None:
    arguments = {"a": {"$from": "x.y"}, "b": [{"c": {"$from": "z"}}, 1], "d": {"$from": "no", "more": 1}, "e": "$from"}
    assert list(references(arguments)) == ["x.y", "z"]


OUTPUTS = {"parse": {"rows": [{"id": 7}, {"id": 8}], "0": "zero"}, "none": None, "list": [1, 2]}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("parse", OUTPUTS["parse"]),
        ("parse.rows.1.id", 8),
        ("parse.0", "zero"),
        ("none", None),
        ("list.0", 1),
    ],
)
def test_a_reference_is_replaced_by_its_value(path: str, value: Any) -> None:
    assert resolved({"a": [From(path).stored()], "b": 1}, OUTPUTS) == {"a": [value], "b": 1}


@pytest.mark.parametrize(
    "path",
    ["gone", "parse.gone", "parse.rows.2", "parse.rows.-1", "parse.rows.x", "none.x", "list.²", "list.0.x", "", "."],
)
def test_a_reference_that_leads_nowhere_says_where_it_ends(path: str) -> None:
    with pytest.raises(InvalidInput, match="leads nowhere at") as caught:
        resolved({"a": From(path).stored()}, OUTPUTS)
    assert caught.value.field == path


def test_given_steps_are_proposed_once_and_answered_with_their_outputs() -> None:
    turn = replace(TURN, steps=[Step("a", "t", x=1).stored()])
    proposed = GivenSteps().next(turn)
    assert isinstance(proposed, Steps)
    assert [step.stored() for step in proposed.steps] == turn.steps
    done = replace(turn, round=2, items=[item("a", 5), item("b", 6, "skipped")])
    assert GivenSteps().next(done) == Final({"a": 5})
    with pytest.raises(InvalidInput, match=r"steps\[1\] must be an object"):
        GivenSteps().next(replace(turn, steps=[Step("a", "t").stored(), 7]))  # type: ignore[list-item]  # wrong on purpose


def test_a_recipe_that_proposes_nothing_new_has_said_all() -> None:
    recipe = Recipe("c", lambda turn: Steps(Step("a", "t"), Step("b", "t")))
    assert isinstance(recipe.next(TURN), Steps)
    assert recipe.next(replace(TURN, round=2, items=[item("a", 1), item("b", 2)])) == Final({"a": 1, "b": 2})
    half = recipe.next(replace(TURN, round=2, items=[item("a", 1)]))
    assert isinstance(half, Steps), "a step that is new is proposed"


def test_a_recipe_that_proposes_no_steps_at_all_says_so_the_first_time() -> None:
    answer = Recipe("c", lambda turn: Steps()).next(TURN)
    assert isinstance(answer, Steps)
    assert not answer.steps


def test_a_recipe_may_answer_at_once() -> None:
    assert Recipe("c", lambda turn: Final(turn.input)).next(TURN) == Final("input")
