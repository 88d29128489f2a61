from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import postgres as harness
from tests.faults.programs.worker import build
from tests.worker.scene import Notes, Scene, until


@dataclass(slots=True)
class Crew:
    """The worker processes of a test; `scene.app` is the same app in the test's process, without a worker."""

    scene: Scene
    url: str
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, url: str | None = None, *, wait: bool = True) -> None:
        """A worker process; returns when it claims."""
        ups = self.scene.notes.lines().count(f"up {name}")
        command = [sys.executable, "-m", "tests.faults.programs.worker", url or self.url, self.scene.notes.path, name]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(part) for part in command], stdout=log, stderr=log, cwd=harness.ROOT, start_new_session=True
            )
        if wait:
            until(lambda: self.scene.notes.lines().count(f"up {name}") > ups, f"{name} up: {self.log(name)}", 40.0)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""

    def signal(self, name: str, which: signal.Signals) -> None:
        self.processes[name].send_signal(which)

    def ended(self, name: str, seconds: float = 40.0) -> int:
        """The exit status."""
        return self.processes[name].wait(seconds)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self.ended(name)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


@pytest.fixture
def crew_on(tmp_path: Path) -> Iterator[Callable[[str], Crew]]:
    """A function from a database's URL to a `Crew`."""
    made: list[Crew] = []

    def make(url: str) -> Crew:
        notes = Notes(tmp_path / "notes")
        made.append(Crew(Scene(build(url, notes, "test"), url, notes), url, tmp_path))
        return made[-1]

    yield make
    for crew in made:
        crew.close()
        crew.scene.app.close()


@pytest.fixture
def crew(database_url: str, crew_on: Callable[[str], Crew]) -> Crew:
    return crew_on(database_url)
