"""The public face under mypy --strict: what users see in their editor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import ROOT

CASES = ROOT / "tests" / "app" / "typing_cases.py"


def mypy(path: Path) -> subprocess.CompletedProcess[str]:
    """With the project's settings and its cache."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)


@pytest.mark.timeout(300)
def test_types_are_inferred_and_mistakes_are_found() -> None:
    done = mypy(CASES)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_a_wrong_claim_would_be_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong_cases.py"
    text = CASES.read_text("utf-8")
    wrong.write_text(text.replace("Job[Receipt])", "Job[str])").replace("# type: ignore[call-arg]", ""), "utf-8")
    done = mypy(wrong)
    assert done.returncode == 1
    assert done.stdout.count("[assert-type]") == text.count("Job[Receipt])")
    assert done.stdout.count("[call-arg]") == text.count("# type: ignore[call-arg]")
