"""The reference says all that there is, and nothing that there is not."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields

import tenure
from tenure import AsyncToolContext, Job, Tenure, ToolContext, Turn, errors
from tenure.db import schema
from tenure.flow.effects import EVENTS
from tenure.flow.turns import ENDED
from tenure.settings import Settings
from tests.docs.pages import names, rows, text
from tests.postgres import ROOT

SOURCE = ROOT / "src" / "tenure"


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def first(page: str, heading: str | None = None) -> list[str]:
    """The names in the first column."""
    return [name for row in rows(text(page), heading) for name in names(row[0])]


# -- settings, errors, tables ------------------------------------------------------------------------------------------


def test_every_setting_with_its_variable_and_its_default() -> None:
    found = {names(row[0])[0]: (names(row[1])[0], names(row[2])[0]) for row in rows(text("reference/settings.md"))}
    expected = {}
    for field in fields(Settings):
        name = field.name.removesuffix("_s")
        expected[name] = (f"TENURE_{name.upper()}", written(field.name, field.default))
    assert found == expected


def written(name: str, value: object) -> str:
    if name.endswith("_s") and isinstance(value, float):
        return f"{value / 86400:g}d" if value >= 86400 else f"{value:g}s"
    return str(value).lower() if isinstance(value, bool) else str(value)


def error_classes() -> list[type[errors.TenureError]]:
    return [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TenureError)]


def test_every_error_with_its_code() -> None:
    page = text("reference/errors.md")
    found = {
        names(row[1])[0]: names(row[0])[0]
        for heading in ("## What your program gets", "## What a tool raises or meets")
        for row in rows(page, heading)
    }
    assert found == {kind.__name__: kind.code for kind in error_classes()}


def test_attributes_of_errors_are_named() -> None:
    page = text("reference/errors.md")
    for attribute in (".field", ".state", ".turn_id", ".status", ".error_code", ".error_message"):
        assert f"`{attribute}`" in page


def stored_codes() -> set[str]:
    """Every literal that ends up as `error_code` of a row."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if path.parts[-2] in ("cli", "toolkit", "testing"):
            continue
        for call in calls(ast.parse(path.read_text("utf-8"))):
            found |= {
                keyword.value.value
                for keyword in call.keywords
                if keyword.arg in ("code", "error_code")
                and isinstance(keyword.value, ast.Constant)
                and isinstance(keyword.value.value, str)
            }
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            if name in ("Failed", "_Verdict") and call.args and isinstance(call.args[0], ast.Constant):
                found.add(str(call.args[0].value))
    return found - {kind.code for kind in error_classes()}


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_every_code_that_is_stored() -> None:
    documented = set(first("reference/errors.md", "## What is stored on jobs, items and turns"))
    everywhere = set(names(text("reference/errors.md")))
    codes = stored_codes()
    assert len(codes) > 12
    assert codes - everywhere == set()
    source = "\n".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py"))
    assert {code for code in documented if f'"{code}"' not in source and not code.startswith("http_")} == set()


def test_every_table_and_column_in_its_order() -> None:
    page = text("reference/tables.md")
    tables = {table.name: table for table in [*schema.metadata.sorted_tables, schema.fencing_token_counter]}
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == set(tables)
    for name, table in tables.items():
        documented = [(names(row[0])[0], row[1]) for row in rows(page, f"## {name}")]
        assert [column for column, _ in documented] == [column.name for column in table.columns], name
        assert all(len(what) >= 3 for _, what in documented), name


def test_statuses_in_the_tables_are_those_of_the_code() -> None:
    page = text("reference/tables.md")
    for table in ("agent_turns", "agent_plan_items", "approval_requests", "background_jobs"):
        words = next(names(row[1]) for row in rows(page, f"## {table}") if names(row[0]) == ["status"])
        column_type = getattr(schema, table).c.status.type
        assert words == [str(word) for word in column_type.words], table


# -- events ------------------------------------------------------------------------------------------------------------


def recorded() -> dict[str, set[str]]:
    """Type → payload fields, from the calls that record them."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (SOURCE / "flow").glob("*.py"):
        for call in calls(ast.parse(path.read_text("utf-8"))):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            literals = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            payload = {keyword.arg for keyword in call.keywords if keyword.arg}
            if name in ("of_turn", "of_item", "of_job", "of_attempt", "of_approval") and literals:
                found[literals[0]] |= payload
            if name == "_refuse":
                found[literals[0]] |= set()
    for kind in (*ENDED.values(), *EVENTS.values()):
        found[kind] |= set()
    return dict(found)


def documented_events() -> dict[str, list[str]]:
    return {names(row[0])[0]: row for row in rows(text("reference/events.md")) if names(row[0])}


def test_every_event_type_and_payload_field() -> None:
    code, page = recorded(), documented_events()
    assert len(code) > 30
    assert set(page) == set(code)
    for kind, payload in code.items():
        missing = payload - set(names(page[kind][-1]))
        assert not missing, f"{kind}: {missing}"


# -- python ------------------------------------------------------------------------------------------------------------


def test_every_public_name() -> None:
    intro = text("reference/python.md").split("\n## ")[0]
    assert {name for row in rows(intro) for name in names(row[0])} == set(tenure.__all__) - {"__version__"}
    for name in tenure.__all__:
        assert name == "__version__" or inspect.getdoc(getattr(tenure, name)), f"{name} has no docstring"


def test_every_method_of_the_app_and_of_the_handles() -> None:
    assert set(first("reference/python.md", "## Tenure")) == public(Tenure)
    handles = set(first("reference/python.md", "## Job and Turn")) | {"session_id"}
    assert handles == public(Job) | public(Turn) | {"row", "replayed"}
    for method in public(Tenure):
        assert inspect.getdoc(getattr(Tenure, method)), f"Tenure.{method} has no docstring"


def test_every_option_of_a_tool_with_its_default() -> None:
    parameters = inspect.signature(Tenure.tool).parameters
    table = {names(row[0])[0]: row[1] for row in rows(text("reference/python.md"), "## Options of a tool")}
    assert set(table) == set(parameters) - {"self", "bare"}
    for name, default in table.items():
        value = parameters[name].default
        if value is None or value == ():
            assert default in ("none", "the function's") or name == "isolation", name
        else:
            assert names(default) == [str(value)], name


def test_the_arguments_of_submit_enqueue_approve_and_deny_are_named() -> None:
    shown = {names(row[0])[0]: row[1] for row in rows(text("reference/python.md"), "## Tenure")}
    for method in ("submit", "approve", "deny"):
        parameters = set(inspect.signature(getattr(Tenure, method)).parameters) - {"self", "input", "approval_id"}
        missing = {name for name in parameters if not re.search(rf"\b{name}=", shown[method])}
        assert missing <= {"tenant_id"} if method != "submit" else not missing, (method, missing)
    from tenure.app.asking import Options

    assert not {name for name in Options.__annotations__ if not re.search(rf"\b{name}=", shown["enqueue"])}


def test_every_name_of_the_context() -> None:
    assert set(first("reference/python.md", "## The context")) == public(ToolContext) | public(AsyncToolContext)
