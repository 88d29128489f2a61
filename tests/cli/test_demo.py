"""`tenure demo` for real on both databases; everything that it claims is recomputed from the tables and the files."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import psutil
import pytest
import sqlalchemy as sa

from tenure.db.engine import Database
from tenure.toolkit.demo_app import middle_of, pieces_of
from tests import factory
from tests.cli.conftest import Cli, Started, until
from tests.toolkit.makers import make_book, make_encrypted, make_raw_book, raw_rows

pytestmark = pytest.mark.timeout(240)
STEPS = ["tenure.plan", "parse", "normalise", "draft", "publish", "tenure.plan"]


def rows_of(database: Database, table: str, order: str, **where: Any) -> list[dict[str, Any]]:
    """Rows of a table, by plain SQL: nothing of the demo reads for its own test."""
    prefix = "" if database.is_sqlite else "tenure."
    conditions = " AND ".join(f"CAST({name} AS TEXT) = :{name}" for name in where) or "1 = 1"
    statement = sa.text(f"SELECT * FROM {prefix}{table} WHERE {conditions} ORDER BY {order}")
    return [dict(row._mapping) for row in database.read(lambda tx: tx.rows(statement, where))]


def plain(value: Any) -> Any:
    """A JSON column as a value, on both databases."""
    return json.loads(value) if isinstance(value, str) else value


def demo(*arguments: str, folder: Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tenure", "demo", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done


class Seen:
    """The one object, and the database that it tells of."""

    def __init__(self, shown: dict[str, Any], url: str) -> None:
        self.shown = shown
        self.database = Database(url)
        turn_id = shown["turn"]["turn_id"]
        (self.turn,) = rows_of(self.database, "agent_turns", "turn_id", turn_id=turn_id)
        self.jobs = rows_of(self.database, "background_jobs", "round, position", turn_id=turn_id)
        self.session = rows_of(self.database, "session_contexts", "1", session_id=self.turn["session_id"])[0]
        self.events = rows_of(self.database, "agent_events", "event_seq", session_id=self.turn["session_id"])
        self.artifacts = rows_of(self.database, "artifacts", "artifact_id", turn_id=turn_id)

    def job(self, tool: str) -> dict[str, Any]:
        return next(job for job in self.jobs if job["tool"] == tool)

    def stages(self, tool: str) -> list[dict[str, Any]]:
        return rows_of(self.database, "job_stages", "fencing_token, started_at", job_id=str(self.job(tool)["job_id"]))

    def close(self) -> None:
        self.database.dispose()


def check(seen: Seen, rows: dict[str, int]) -> None:
    """Whatever was asked of the demo, this must hold."""
    shown = seen.shown
    assert shown["turn"]["status"] == seen.turn["status"] == "completed"
    assert shown["rows"] == rows
    assert rows["in"] == rows["kept"] + rows["merged"] + rows["rejected"]
    _check_jobs(seen)
    _check_takeover(seen, rows["in"])
    _check_events(seen)
    _check_files(seen, rows)


def _check_jobs(seen: Seen) -> None:
    told = [(job["tool"], job["status"], job["attempt"], job["fencing_token"]) for job in seen.shown["jobs"]]
    assert told == [(job["tool"], job["status"], job["attempt"], job["fencing_token"]) for job in seen.jobs]
    assert [tool for tool, *_ in told] == STEPS
    assert {tool: attempt for tool, _, attempt, _ in told} == {tool: 1 + (tool == "normalise") for tool in STEPS}
    assert {status for _, status, *_ in told} == {"completed"}
    tokens = [each["fencing_token"] for each in seen.shown["owners"]]
    assert tokens == sorted(set(tokens)), "each token was held once"
    assert len(tokens) == len(STEPS) + 1, "every job once, normalise twice"


def _check_takeover(seen: Seen, rows_in: int) -> None:
    """Worker 1 was killed inside a stage, its lease ran out, and worker 2 did the rest and nothing twice."""
    killed, job = seen.shown["killed"], seen.job("normalise")
    (entry,) = rows_of(seen.database, "job_attempts", "fencing_token", job_id=str(job["job_id"]))
    assert killed["returncode"] == -signal.SIGKILL
    assert (entry["outcome"], entry["owner"]) == ("lease_expired", killed["owner"])
    assert entry["fencing_token"] == killed["fencing_token"] < job["fencing_token"]
    assert entry["owner"].startswith("worker-1:")
    assert job["lease_owner"].startswith("worker-2:")
    pieces, _ = pieces_of(rows_in)
    stages = seen.stages("normalise")
    assert [f"{stage['name']}#{stage['part']}" for stage in stages if stage["part"]] == [
        f"rows#{piece}" for piece in range(1, pieces + 1)
    ]
    assert killed["stage"] == f"rows#{middle_of(pieces)}"
    assert Counter(stage["fencing_token"] for stage in stages) == {
        killed["fencing_token"]: middle_of(pieces),  # the columns, and the pieces before the middle
        job["fencing_token"]: pieces - middle_of(pieces) + 1,
    }
    saved = Counter(plain(event["payload"])["stage"] for event in seen.events if event["type"] == "stage_saved")
    assert set(saved.values()) == {1}, "no finished stage was repeated"
    assert len(saved) == len(stages) + len(seen.stages("publish"))
    assert not psutil.pid_exists(killed["pid"])


def _check_events(seen: Seen) -> None:
    numbers = [event["event_seq"] for event in seen.events]
    assert numbers == list(range(1, len(numbers) + 1))
    assert seen.shown["events"] == {"count": len(numbers), "dense": True}
    assert seen.session["last_event_seq"] == len(numbers)
    kinds = Counter(event["type"] for event in seen.events)
    assert kinds["lease_expired"] == kinds["approval_granted"] == kinds["turn_completed"] == 1
    assert kinds["job_completed"] == len(STEPS)
    assert kinds["result_rejected"] == kinds["job_failed"] == 0


def _check_files(seen: Seen, rows: dict[str, int]) -> None:
    """The result exists once, and what lies in the folder is what was published."""
    names = Counter(artifact["name"] for artifact in seen.artifacts)
    assert set(names.values()) == {1}
    published = {a["name"]: a for a in seen.artifacts if str(a["job_id"]) == str(seen.job("publish")["job_id"])}
    assert [file["name"] for file in seen.shown["artifacts"]] == list(published)
    for file in seen.shown["artifacts"]:
        content = Path(file["path"]).read_bytes()
        row = published[file["name"]]
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
        assert (row["bytes"], row["sha256"]) == (file["bytes"], file["sha256"])
    workbook, report = (Path(file["path"]) for file in seen.shown["artifacts"])
    book = openpyxl.load_workbook(workbook, read_only=True)
    assert sum(1 for _ in book["Clean"].iter_rows()) == rows["kept"] + 1
    assert sum(1 for _ in book["Rejected"].iter_rows()) == rows["rejected"] + 1
    book.close()
    text = report.read_text()
    assert text.startswith("<!doctype html>")
    assert f"<dd>{rows['kept']:,}</dd>" in text or f"{rows['kept']}" in text
    drafted = next(a for a in seen.artifacts if a["name"].endswith("-draft.html"))
    assert drafted["sha256"] == hashlib.sha256(text.encode()).hexdigest(), "what was read is what was published"
    assert not list(workbook.parent.glob(".*.tmp"))


@pytest.fixture
def seen() -> Any:
    made: list[Seen] = []

    def see(output: str, url: str) -> Seen:
        made.append(Seen(json.loads(output), url))
        return made[-1]

    yield see
    for each in made:
        each.close()


def test_the_sample(database_url: str, tmp_path: Path, seen: Callable[..., Seen]) -> None:
    """In an empty folder: at least 20,000 messy rows, on both databases, within a minute."""
    began = time.monotonic()
    done = demo("--yes", "--json", "--database", database_url, folder=tmp_path)
    assert done.stderr == ""
    told = seen(done.stdout, database_url)
    rows = told.shown["rows"]
    assert rows["in"] >= 20_000
    assert min(rows.values()) > 500
    check(told, rows)
    assert time.monotonic() - began < 90
    assert sorted(path.name for path in (tmp_path / "tenure-demo").iterdir()) == [
        "artifacts",
        "sales-clean.xlsx",
        "sales-draft.html",
        "sales-report.html",
        "sales.xlsx",
        "worker-1.log",
        "worker-2.log",
    ]
    source = openpyxl.load_workbook(tmp_path / "tenure-demo" / "sales.xlsx", read_only=True)
    assert sum(1 for _ in source.worksheets[1].iter_rows()) == rows["in"] + 1
    source.close()


def test_two_at_once_on_a_workbook_of_somebody_else(
    database_url: str, tmp_path: Path, seen: Callable[..., Seen], started: Callable[..., Started]
) -> None:
    """Three rows made by openpyxl, under a name that is no plain one. One demo runs to its end; the other says so."""
    source = tmp_path / "mine, “really” №1.xlsx"
    book = openpyxl.Workbook()
    for row in (["Name", "n"], ["Ann ", 1], ["Ann", 1], ["Bob", 2]):
        book.active.append(row)  # type: ignore[union-attr]  # a new book has a sheet
    book.save(source)
    arguments = ("demo", str(source), "--yes", "--json", "--database", database_url)
    both = [started(*arguments, "--out", str(tmp_path / f"results {each}" / "here")) for each in range(2)]
    codes = [each.process.wait(200) for each in both]
    assert sorted(codes) == [0, 1], [each.err.read_text() for each in both]
    won, lost = both[codes.index(0)], both[codes.index(1)]
    (line,) = lost.err.read_text().splitlines()
    assert f"another demo is running on {Database(database_url).name} (pid {won.process.pid} on " in line
    assert line.endswith("wait until it has ended, or give another --database")
    assert lost.out.read_text() == ""
    told = seen(won.out.read_text(), database_url)
    check(told, {"in": 3, "kept": 2, "merged": 1, "rejected": 0})
    place = tmp_path / f"results {codes.index(0)}" / "here" / "mine, “really” №1-clean.xlsx"
    assert told.shown["artifacts"][0]["path"] == str(place)


def test_one_after_another_in_a_folder(tmp_path: Path, seen: Callable[..., Seen]) -> None:
    """For people: lines, each thing said once, the lease class in numbers. Then for a program, on the same database,
    a text file with one row: the smallest job is killed in the middle too."""
    make_book(tmp_path / "b.xlsx", S=[["a"], [1], [2]])
    out = demo("b.xlsx", "--yes", folder=tmp_path).stdout
    assert "lease 6 s, heartbeat 1 s, missed 1, margin 2 s (6 > (1 + 1) × 1 + 2 = 4)" in out
    for text in (
        "SIGKILL to worker-1",
        "worker-2 took over normalise",
        "nobody renewed worker-1's lease",
        "--yes: approved",
        "Who held which job",
    ):
        assert out.count(text) == 1, out
    assert re.search(r"finished stages repeated +none \(2 kept from token 3, 1 done after the takeover\)", out)
    assert re.search(r"rows +2 in = 2 kept \+ 0 merged \+ 0 rejected", out)
    for name in ("b-clean.xlsx", "b-report.html"):
        assert f"{tmp_path}/tenure-demo/{name}" in out
    assert "\x1b" not in out
    (tmp_path / "one.csv").write_text("a;b\n1;2\n")
    place = f"{tmp_path}/tenure-demo/tenure.db"
    told = seen(demo("one.csv", "--yes", "--json", folder=tmp_path).stdout, f"sqlite:///{place}")
    assert told.shown["database"] == place
    check(told, {"in": 1, "kept": 1, "merged": 0, "rejected": 0})
    assert told.shown["killed"]["stage"] == "rows#1"
    assert len(rows_of(told.database, "agent_turns", "1")) == 2


def test_a_person_says_no(tmp_path: Path) -> None:
    """On a terminal there are bars and a question; a refusal publishes nothing and is exit code 1."""
    make_book(tmp_path / "b.xlsx", S=[["a"], [1], [2]])
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.environ.update(TERM="xterm-256color", COLUMNS="120", LINES="40")
        os.execv(sys.executable, [sys.executable, "-m", "tenure", "demo", "b.xlsx"])
    shown = _conversed(terminal, "Publish?", "n\r")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1, shown
    assert "lease ends in" in shown
    assert "━" in shown
    assert "Nothing was published" in shown
    assert "failed: step 'publish' (publish): denied by" in shown
    assert not list((tmp_path / "tenure-demo").glob("b-clean.xlsx"))


def _conversed(terminal: int, question: str, answer: str) -> str:
    """All that the terminal showed, after the question was answered."""
    shown, asked = "", False
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:
            break
        if not part:
            break
        shown += part.decode(errors="replace")
        if question in shown and not asked:
            asked = True
            os.write(terminal, answer.encode())
    os.close(terminal)
    return shown


# -- what can go wrong -------------------------------------------------------------------------------------------------


def _file(kind: str, folder: Path) -> str:
    place = folder / "in.xlsx"
    match kind:
        case "missing":
            pass
        case "empty":
            place.write_bytes(b"")
        case "text":
            place.write_text("Name,Amount\nAnn,1\n" * 3 + "\0")
        case "encrypted":
            make_encrypted(place)
        case "no rows":
            make_book(place, Sheet=[["Name", "Amount"]])
        case "nothing in it":
            make_book(place, Sheet=[])
        case "too many":
            make_raw_book(place, raw_rows(1_048_576, "A"))
        case _:
            place.mkdir()
    return str(place)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("missing", "does not exist; name an xlsx, xls, ods or csv file"),
        ("empty", "is empty (0 bytes)"),
        ("text", "cannot be read: its content is not a workbook"),
        ("encrypted", "is encrypted; save it without a password"),
        ("no rows", "has a header and no rows below it"),
        ("nothing in it", "no sheet"),
        ("too many", "has more than 200,000 rows"),
        ("directory", "is a directory; name one workbook file in it"),
    ],
)
def test_files_that_cannot_be_used(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cli("demo", _file(kind, tmp_path), "--yes")
    assert text in ran.error
    assert "in.xlsx" in ran.error
    assert ran.code == 2
    assert ran.out == ""
    assert [path.name for path in tmp_path.iterdir()] in ([], ["in.xlsx"]), "something was half written"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--yes", "--database", "mysql://root:secret@h/x"], 2, "names 'mysql'; write sqlite:///"),
        (["--yes", "--database", "no url"], 2, "cannot be read"),
        (["--yes", "--database", "sqlite:////no/such/folder/x.db"], 4, "/no/such/folder/x.db: unable to open"),
        (["--yes", "--database", "postgresql://u:secret@127.0.0.1:1/x"], 4, "Connection refused"),
        (["--yes", "--out", "b.xlsx"], 2, "--out b.xlsx is a file"),
        ([], 2, "stdin is no terminal: add --yes to agree"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_places_that_cannot_be_used(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make_book(tmp_path / "b.xlsx", S=[["a"], [1]])
    ran = cli("demo", "b.xlsx", *arguments)
    assert text in ran.error
    assert (ran.code, ran.out) == (code, "")
    assert "secret" not in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["b.xlsx"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_it_leaves_no_process_behind(
    tmp_path: Path, started: Callable[..., Started], number: signal.Signals
) -> None:
    make_book(tmp_path / "b.xlsx", S=[["a"], [1]])
    process = started("demo", str(tmp_path / "b.xlsx"), "--yes", "--out", str(tmp_path / "out"))
    process.said("normalise claimed by worker-1")
    children = psutil.Process(process.process.pid).children(recursive=True)
    assert children
    code = process.end(number)
    until(lambda: not any(_runs(child) for child in children), 30)
    if number == signal.SIGKILL:
        assert code == -9
        return
    assert code == 130
    assert process.err.read_text().startswith("tenure: interrupted: the turn is cancelled")
    database = Database(f"sqlite:///{tmp_path}/out/tenure.db")
    assert [turn["status"] for turn in rows_of(database, "agent_turns", "1")] == ["cancelled"]
    database.dispose()
    assert not list((tmp_path / "out").glob("b-clean*"))


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_worker_that_dies_unasked(tmp_path: Path, started: Callable[..., Started]) -> None:
    """Nobody waits for ever: one line with what it said last, and where its log is."""
    make_book(tmp_path / "b.xlsx", S=[["a"], [1]])
    process = started("demo", str(tmp_path / "b.xlsx"), "--yes", "--out", str(tmp_path / "out"))
    process.said("worker-1 started")
    (child,) = psutil.Process(process.process.pid).children()
    child.kill()
    assert process.process.wait(60) == 1
    (line,) = process.err.read_text().splitlines()
    assert f"worker-1 (pid {child.pid}) ended with -9" in line
    assert f"log: {tmp_path}/out/worker-1.log" in line


@pytest.mark.parametrize("company", ["worker", "turn"])
def test_a_database_that_another_program_works_on(
    cli: Cli, database: Database, database_url: str, tmp_path: Path, company: str
) -> None:
    """The demo's workers would claim the planning of turns whose recipes they do not have."""
    if company == "worker":
        factory.worker(database, "shop:1", tools=["charge", "tenure.plan"])
    else:
        factory.turn(database, factory.session(database, "customer-7").key)
    make_book(tmp_path / "b.xlsx", S=[["a"], [1]])
    ran = cli("demo", str(tmp_path / "b.xlsx"), "--yes", "--out", str(tmp_path / "out"), database=database_url)
    assert ran.code == 1
    seen = "worker shop:1" if company == "worker" else "1 unfinished turns"
    assert f"another program works on {database.name} ({seen}): give the demo a --database of its own" in ran.error
    assert not (tmp_path / "out").exists()
    assert [row["status"] for row in rows_of(database, "worker_heartbeats", "1", name="demo")] == ["stopped"]
