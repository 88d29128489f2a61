"""Every error is one line on stderr that says what, where and what would be right, with an exit code that means it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.cli import main
from tests.cli.conftest import Cli, Folder


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nothing"], 2, "No such command 'nothing'"),
        (["jobs", "--nothing"], 2, "No such option: --nothing"),
        (["submit", "a:b"], 2, "Missing argument 'COMMAND'"),
        (["worker", "nothing"], 2, "'nothing' names no app: write module:app"),
        (["worker", "no.such:app", "--alone"], 2, "no module 'no.such'"),
        (["worker", "x:app", "--grace", "30"], 2, "--grace: expected a duration with its unit"),
        (["worker", "x:app", "--grace", "-1s"], 2, "--grace: expected a duration"),
        (["worker", "x:app", "--concurrency", "0"], 2, "--concurrency"),
        (["jobs", "--database", "mysql://root:secret@host/x"], 2, "names 'mysql'"),
        (["jobs", "--database", "what"], 2, "cannot be read; write sqlite:///"),
        (["jobs", "--database", "sqlite://"], 2, "must be a file"),
        (["turns", "--status", "done"], 2, "no database at"),
        (["migrate", "--sql", "--check"], 2, "exclude each other"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_was_typed_is_wrong(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TENURE_DATABASE_URL", raising=False)
    ran = cli(*arguments, *(["--alone"] if arguments[:2] == ["worker", "nothing"] else []))
    assert text in ran.error
    assert ran.out == ""
    assert ran.code == (4 if "no database" in text else code)
    assert "secret" not in ran.err
    assert list(tmp_path.iterdir()) == [], "a refused command left a file"


@pytest.mark.parametrize(
    ("module", "named", "text"),
    [
        ("", ":app", "has no Tenure named 'app'"),
        ("", ":", "names no app"),
        ("from tenure import Tenure\nmine = Tenure()", ":app", "has no Tenure named 'app'; it has 'mine'"),
        ("import no_such_library", ":app", "needs module 'no_such_library', which is not installed"),
        ("def broken(:", ":app", "cannot be read: invalid syntax"),
        ("1 / 0", ":app", "cannot be imported: ZeroDivisionError: division by zero"),
        (
            "from tenure import Tenure\napp = Tenure()\n@app.tool(lease='10s', heartbeat='10s')\ndef f() -> int: ...",
            ":app",
            "lease > (missed + 1) × heartbeat + margin does not hold: 10 > (1 + 1) × 10 + 20 = 40 is false",
        ),
        ("from tenure import Tenure\napp = Tenure('mysql://x/y')", ":app", "names 'mysql'"),
    ],
)
def test_an_app_that_cannot_be_used(cli: Cli, folder: Folder, module: str, named: str, text: str) -> None:
    folder.file.write_text(module)
    ran = cli("submit", f"{folder.module}{named}", "peek", "--session", "s")
    assert text in ran.error
    assert ran.code == 2


def test_a_traceback_is_shown_on_request(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TENURE_TRACEBACK", "1")
    ran = cli("worker", "no.such:app", "--alone")
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("tenure: no module 'no.such'")


@pytest.mark.parametrize("command", ["turns", "jobs", "approvals", "workers", "doctor"])
def test_looking_makes_no_database(cli: Cli, tmp_path: Path, command: str) -> None:
    path = tmp_path / "absent.db"
    ran = cli(command, database=f"sqlite:///{path}")
    assert ran.code == 4
    assert f"no database at {path}" in ran.out + ran.err
    assert not path.exists()


@pytest.mark.parametrize("command", ["turns", "jobs", "approvals", "workers", "migrate"])
def test_a_database_that_cannot_be_used(cli: Cli, tmp_path: Path, command: str) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is no database, whatever its name says\n" * 100)
    ran = cli(command, database=f"sqlite:///{path}")
    assert ran.code == 4
    assert f"{path}: file is not a database" in ran.error
    assert path.read_text().startswith("this is no database")


def test_nobody_reads_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess
    import sys

    pipeline = f"{sys.executable} -m tenure --help | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert main(["--version"]) == 0
