"""Scopes: what covers a call, and that a rule which is not known covers nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.flow.scope import covers

COVERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"amount": 5}),
    ({"amount": 5}, {"amount": 5}),
    ({"amount": 5}, {"amount": 5, "other": 1}),
    ({"amount": [1, 5]}, {"amount": 5}),
    ({"amount": {"min": 1}}, {"amount": 1}),
    ({"amount": {"max": 5}}, {"amount": 5}),
    ({"amount": {"min": 1, "max": 5}}, {"amount": 2.5}),
    ({"name": {"prefix": "tmp_"}}, {"name": "tmp_a"}),
    ({"name": {"prefix": ""}}, {"name": "anything"}),
    ({"name": ["a", {"deep": 1}]}, {"name": {"deep": 1}}),
    ({"lines": [[1, 2]]}, {"lines": [1, 2]}),
    ({"a": 1, "b": {"min": 0}}, {"a": 1, "b": 0}),
    ({"flag": True}, {"flag": True}),
    ({"value": None}, {"value": None}),
]

COVERS_NOT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"amount": 5}, {"amount": 5.0}),
    ({"amount": 5}, {"amount": "5"}),
    ({"amount": 5}, {}),
    ({"value": None}, {}),
    ({"flag": True}, {"flag": 1}),
    ({"amount": []}, {"amount": 5}),
    ({"amount": [1, 5]}, {"amount": [1, 5]}),
    ({"amount": {"min": 1}}, {"amount": 0}),
    ({"amount": {"max": 5}}, {"amount": 5.0001}),
    ({"amount": {"min": 5, "max": 1}}, {"amount": 3}),
    ({"amount": {"min": 0}}, {"amount": True}),
    ({"amount": {"min": 0}}, {"amount": "3"}),
    ({"amount": {"min": "0"}}, {"amount": 3}),
    ({"amount": {"min": None}}, {"amount": 3}),
    ({"name": {"prefix": "tmp_"}}, {"name": "TMP_a"}),
    ({"name": {"prefix": "tmp_"}}, {"name": "orders tmp_"}),
    ({"name": {"prefix": "é"}}, {"name": "e\u0301"}),
    ({"name": {"prefix": 1}}, {"name": "1"}),
    ({"name": {"prefix": "1"}}, {"name": 1}),
    ({"name": {"prefix": "a", "min": 1}}, {"name": "ab"}),
    ({"name": {"suffix": "a"}}, {"name": "a"}),
    ({"name": {"min": 1, "step": 2}}, {"name": 3}),
    ({"name": {}}, {"name": {}}),
    ({"name": {"min": 1}}, {"name": {"min": 1}}),
    ({"a": 1, "b": 2}, {"a": 1, "b": 3}),
]


@pytest.mark.parametrize(("scope", "arguments"), COVERS, ids=str)
def test_covered(scope: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert covers(scope, arguments)


@pytest.mark.parametrize(("scope", "arguments"), COVERS_NOT, ids=str)
def test_not_covered(scope: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert not covers(scope, arguments)
