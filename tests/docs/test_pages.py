"""The pages: their code runs, their links lead somewhere, their words are the house's."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tenure import Tenure, ToolContext
from tenure.db.engine import Database
from tenure.errors import JobFailed
from tests.docs.pages import DOCS, LINK, blocks, pages, prose
from tests.postgres import ROOT

AVOIDED = re.compile(
    r"\b(tasks?|picked|managers?|services?|helpers?|utils?|commonl?y?|messages?|simply|just|obviously)\b",
    re.IGNORECASE,
)


def name_of(path: Path) -> str:
    return str(path.relative_to(DOCS))


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(path.read_text("utf-8")):
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        found = (path.parent / target).resolve() if target else path
        assert found.exists(), link
        assert found.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(found), link


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_first() -> None:
    seen: set[Path] = set()
    open_pages = [DOCS / "index.md"]
    while open_pages:
        page = open_pages.pop()
        seen.add(page)
        for link in LINK.findall(page.read_text("utf-8")):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.is_relative_to(DOCS) and target not in seen:
                open_pages.append(target)
    assert set(pages()) - seen == set()


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_words_lines_and_blanks(path: Path) -> None:
    source = path.read_text("utf-8")
    if name_of(path) != "reference/cli.md":
        assert AVOIDED.findall(prose(path)) == []
    assert source.startswith("# ")
    assert source.endswith("\n")
    assert not source.endswith("\n\n")
    long = [line for line in source.splitlines() if len(line) > 128 and not line.startswith("|")]
    assert long == []
    assert not re.search(r"[ \t]+$", source, re.MULTILINE)


def test_every_block_says_what_it_is() -> None:
    for path in pages():
        languages = {block.language for block in blocks(path)}
        assert languages <= {"python", "sql", "toml", "console", "text", "json"}, name_of(path)


# -- code --------------------------------------------------------------------------------------------------------------

PYTHON = [path for path in pages() if any(block.language == "python" for block in blocks(path))]


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_python_runs_from_the_top_of_the_page_to_its_end(
    path: Path, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The blocks of a page are one program; functions `test_…` in it are called with the fixture that they want."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENURE_DATABASE_URL", database_url)
    page = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)  # type hints are looked up in their module
    namespace = page.__dict__
    try:
        for block in blocks(path):
            if block.language == "python":
                exec(compile("\n" * (block.line - 1) + block.code, str(path), "exec"), namespace)
        for name, test in list(namespace.items()):
            if name.startswith("test_"):
                test(request.getfixturevalue("tenure_run"))
    finally:
        drop_orders(database_url)
        for value in namespace.values():
            if isinstance(value, Tenure):
                value.close()


def drop_orders(url: str) -> None:
    """A page's own table."""
    database = Database(url)
    database.write(lambda tx: tx.connection.exec_driver_sql("DROP TABLE IF EXISTS orders"))
    database.dispose()


def test_a_page_whose_code_is_wrong_would_be_found() -> None:
    assert len(PYTHON) >= 5
    assert all("assert" in "".join(block.code for block in blocks(path)) for path in PYTHON)


# -- SQL ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def night(database_url: str, tmp_path: Path) -> Iterator[tuple[Tenure, dict[str, str]]]:
    """A database with something for each query to find."""
    app = Tenure(database_url, artifacts=str(tmp_path / "artifacts"))
    ids: dict[str, str] = {}

    @app.tool(max_attempts=1)
    def breaks(ctx: ToolContext) -> None:
        ctx.effect("charge", lambda call: {"key": call.key})
        raise RuntimeError("after the charge")

    @app.tool(approval="required")
    def delete(table: str) -> None: ...

    @app.tool(name="nobody-runs-this", limit=1)
    def waits() -> None: ...

    with app.worker(without=["nobody-runs-this"]):
        job = breaks.enqueue()
        with pytest.raises(JobFailed):
            job.result("20s")
        turn = app.submit(session_id="s", steps=[{"name": "a", "tool": "delete", "arguments": {"table": "x"}}])
        turn.wait("20s", for_approval=True)
    waits.enqueue()
    ids |= {"failed": job.id, "approval": turn.pending()[0].approval_id}
    yield app, ids
    app.close()


def test_every_query_of_the_night_runs_and_finds(night: tuple[Tenure, dict[str, str]]) -> None:
    app, ids = night
    found = [block.code for block in blocks(DOCS / "how-to" / "sql-at-night.md") if block.language == "sql"]
    assert len(found) >= 5
    holding, owned, effects, waiting, asked, failed = (query(app, code, job=ids["failed"]) for code in found)
    assert holding == []
    assert [(row["outcome"], row["error_code"]) for row in owned] == [
        ("failed", "exception"),
        ("now failed", "exception"),
    ]
    assert len({row["fencing_token"] for row in owned}) == 1
    assert [(row["state"], row["name"], row["tool"], row["status"]) for row in effects] == [
        ("done", "charge", "breaks", "failed")
    ]
    assert [(row["tool"], row["blocked_by"], row["jobs"], bool(row["offered"])) for row in waiting] == [
        ("nobody-runs-this", None, 1, False)
    ]
    assert [str(row["approval_id"]) for row in asked] == [ids["approval"]]
    assert [(row["tool"], row["error_code"], row["jobs"]) for row in failed] == [("breaks", "exception", 1)]


def query(app: Tenure, code: str, **parameters: str) -> list[Any]:
    """As in psql after SET search_path, or in sqlite3."""
    database = app.program.database
    given = {name: value for name, value in parameters.items() if f":{name}" in code}
    cast = code if database.is_sqlite else code.replace(":job", "CAST(:job AS uuid)")

    def body(tx: Any) -> list[Any]:
        if not database.is_sqlite:
            tx.connection.exec_driver_sql("SET LOCAL search_path TO tenure")
        return [dict(row) for row in tx.connection.execute(sa.text(cast), given).mappings()]

    return database.read(body)


def test_a_running_job_is_seen_by_the_first_query(database_url: str) -> None:
    from tenure.testing import Driver

    app = Tenure(database_url)

    @app.tool()
    def slow() -> None: ...

    slow.enqueue()
    (lease,) = Driver(app.program, "w1").claim()
    first = blocks(DOCS / "how-to" / "sql-at-night.md")[0].code
    (row,) = query(app, first)
    assert (row["tool"], row["lease_owner"], row["fencing_token"]) == ("slow", "w1", lease.fencing_token)
    app.close()
