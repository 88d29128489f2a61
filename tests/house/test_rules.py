"""The rules of the suite itself: no skips, no expected failures, a bound on time, equal numbers on both databases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import size_report
from tests.postgres import ROOT


def run_pytest(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.strict"]\n')
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_skips_and_expected_failures_fail_the_run(tmp_path: Path) -> None:
    source = """
import pytest
@pytest.mark.skip(reason="too cold")
def test_marked(): pass
def test_inside(): pytest.skip("too warm")
@pytest.mark.xfail(reason="known")
def test_expected(): assert False
@pytest.mark.xfail(reason="mended")
def test_unexpected(): pass
def test_good(): pass
"""
    done = run_pytest(tmp_path, source)
    assert done.returncode == 1, done.stdout
    assert "3 failed, 1 passed, 1 error" in done.stdout
    for reason in ("too cold", "too warm", "known", "mended"):
        assert reason in done.stdout


def test_a_skipped_module_fails_the_run(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "import pytest\npytest.importorskip('no_such_package')\n")
    assert done.returncode == 2, done.stdout
    assert "no_such_package" in done.stdout


def test_a_test_that_hangs_is_ended(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "import time\ndef test_it(): time.sleep(30)\n", "--timeout=0.5")
    assert done.returncode == 1, done.stdout
    assert "Timeout" in done.stdout


def test_tests_are_counted_for_each_database(tmp_path: Path) -> None:
    source = """
import pytest
@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_both(backend): pass
@pytest.mark.parametrize("backend", ["sqlite"])
def test_one(backend): pass
def test_neither(): pass
"""
    report = tmp_path / "report"
    done = run_pytest(tmp_path, source, "-n2", f"--backend-report={report}")
    assert done.returncode == 0, done.stdout
    assert report.read_text() == "postgres 1, sqlite 2\n"
    assert "postgres 1, sqlite 2" in done.stdout


def test_what_is_too_long_needs_a_reason(tmp_path: Path) -> None:
    body = "    x = 1\n" * 60
    (tmp_path / "long.py").write_text(f"class A:\n  def f(self):\n{body}\ndef g():\n{body}" + "y = 1\n" * 300)
    assert [complaint.split(" has ")[0] for complaint in size_report.report(tmp_path, {})] == [
        "long.py",
        "long.py:A.f",
        "long.py:g",
    ]
    reasons = {"long.py": "a table", "long.py:A.f": "a table", "long.py:g": "a table"}
    assert size_report.report(tmp_path, reasons) == []
    assert size_report.report(tmp_path, {**reasons, "long.py:h": "gone"}) == [
        "long.py:h is in REASONS but is not too long"
    ]
