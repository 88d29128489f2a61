"""The command line as its users meet it: `cli(…)` in this process, `started(…)` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenure.canon import uuid7
from tenure.cli import main
from tests.opened import database

__all__ = ["database"]

APP = """
import os
import threading
import time
from pathlib import Path

from tenure import From, Step, Steps, Tenure, TerminalError, ToolContext

app = Tenure(artifacts=os.environ.get("CLI_ARTIFACTS", "artifacts"))
spare = "not an app"
SHORT = dict(lease="4s", heartbeat="1s", missed=1, margin="1s")


@app.tool(**SHORT)
def look(ctx: ToolContext, name: str) -> dict[str, str]:
    ctx.stage("seen", lambda: name)
    return {"name": name}


@app.tool(approval="required", **SHORT)
def pay(name: str, password: str = "none") -> str:
    return f"paid {name}"


@app.tool(max_attempts=1, **SHORT)
def broken(name: str) -> str:
    raise TerminalError(f"no {name} here", code="not_here")


@app.tool(**SHORT)
def slow(seconds: float) -> str:
    Path("slow-began").write_text(str(os.getpid()))
    time.sleep(seconds)
    return "slept"


@app.tool(timeout="500ms", max_attempts=1, **SHORT)
def stuck() -> str:
    time.sleep(60)
    return "never"


@app.tool(**SHORT)
def crash(mark: str) -> str:
    if not Path(mark).exists():
        Path(mark).write_text(str(os.getpid()))
        os.kill(os.getpid(), 9)
    return "survived"


@app.recipe("buy")
def buy(turn):
    return Steps(Step("look", look, name=turn.input), Step("pay", pay, name=From("look.name"), password="hunter2!"))


@app.recipe("peek")
def peek(turn):
    return Steps(Step("look", look, name=turn.input))


@app.recipe("fail")
def fail(turn):
    return Steps(Step("broken", broken, name=turn.input))
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on stderr, which is no traceback."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("tenure"), self.err
        return lines[0]


Cli = Callable[..., Ran]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command here: `cli("jobs", "--json", database=url)`."""

    def run(*arguments: str, database: str | None = None) -> Ran:
        capsys.readouterr()
        where = [] if database is None else ["--database", database]
        code = main([*arguments, *where])
        said = capsys.readouterr()
        return Ran(int(code), said.out, said.err)

    return run


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with an app in it. `app` is its `module:app`."""

    path: Path
    module: str

    @property
    def app(self) -> str:
        return f"{self.module}:app"

    @property
    def file(self) -> Path:
        return self.path / f"{self.module}.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """The current folder, with an app that no other test has imported."""
    made = Folder(tmp_path, f"app_{uuid7()[-12:]}")
    made.file.write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield made
    sys.modules.pop(made.module, None)


class Started:
    """A command that runs as a process of its own, its output in files."""

    def __init__(self, arguments: Sequence[str], out: Path, err: Path) -> None:
        self.out, self.err = out, err
        environment = {**os.environ, "COLUMNS": "200"}
        with out.open("wb") as stdout, err.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tenure", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environment,
            )

    def said(self, text: str, *, seconds: float = 30.0, times: int = 1) -> str:
        """Waits until the text was printed so many times, and returns all output."""
        everything = ""

        def look() -> bool:
            nonlocal everything
            everything = self.out.read_text() + self.err.read_text()
            return everything.count(text) >= times

        until(look, seconds, lambda: f"{text!r} not in: {everything}")
        return everything

    def end(self, number: int = signal.SIGTERM, seconds: float = 30.0) -> int:
        """Sends the signal and returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)


def until(look: Callable[[], object], seconds: float, what: Callable[[], str] = lambda: "it did not happen") -> None:
    """Waits until it is so."""
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Starts a command; what still runs at the end of the test is killed."""
    made: list[Started] = []

    def start(*arguments: str) -> Started:
        number = len(made)
        made.append(Started(arguments, tmp_path / f"out-{number}", tmp_path / f"err-{number}"))
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()
