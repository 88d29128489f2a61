"""The demo's worker processes: started, killed, and always ended, by their process ids."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tenure.cli.supervise import Leash, working_command
from tenure.errors import TenureError

APP = "tenure.toolkit.demo_app:app"
PATIENCE_S = 10.0


class WorkerDied(TenureError):
    """A worker ended that nobody had asked to."""

    code = "worker_died"


@dataclass(frozen=True, slots=True)
class Process:
    """A running worker. `name` is what its owner id begins with; its output is in `log`."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    def kill(self) -> int:
        """SIGKILL: it can do nothing about it. Returns the exit code as the system tells it: -9."""
        self.popen.kill()
        return self.popen.wait()

    def require_alive(self) -> None:
        """WorkerDied, with the last line that it wrote."""
        code = self.popen.poll()
        if code is not None:
            lines = self.log.read_text("utf-8", "replace").strip().splitlines()
            said = lines[-1].removeprefix("tenure: ") if lines else "it said nothing"
            raise WorkerDied(f"{self.name} (pid {self.pid}) ended with {code}: {said} (log: {self.log})")


class Workers:
    """Every worker of one demo. Leaving the block ends those that still run; so does the end of this process."""

    def __init__(self, out: Path, environment: Mapping[str, str]) -> None:
        self._out = out
        self._environment = {**os.environ, **environment}
        self._leash = Leash()
        self._processes: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._leash.close()

    def start(self, name: str, **environment: str) -> Process:
        """Starts a worker process of its own name."""
        log = self._out / f"{name}.log"
        command = working_command([APP, "--name", name, "--concurrency", "4", "--grace", "5s"])
        with log.open("wb") as output:
            popen = self._leash.start(
                command,
                env={**self._environment, **environment},
                cwd=self._out,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(Process(name, popen, log))
        return self._processes[-1]

    def stop(self) -> None:
        """SIGTERM to all that run, SIGKILL to those that do not end in time; again is fine."""
        running = [process for process in self._processes if process.popen.poll() is None]
        for process in running:
            process.popen.send_signal(signal.SIGTERM)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(PATIENCE_S)
            if process.popen.poll() is None:
                process.kill()
