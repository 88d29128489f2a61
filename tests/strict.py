"""Rules for every run of the tests: nothing is skipped, and each database sees the same number of tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

PROPERTY = "backend"
COUNTS: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend-report", metavar="FILE", help="append how many tests ran on each database to FILE")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        backend = getattr(item, "callspec", None) and item.callspec.params.get(PROPERTY)  # type: ignore[attr-defined]
        if backend:
            item.user_properties.append((PROPERTY, backend))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if hasattr(report, "wasxfail"):
        _refuse(report, f"{item.nodeid} is marked as an expected failure ({report.wasxfail})")
        del report.wasxfail
    elif report.skipped:
        _refuse(report, f"{item.nodeid} was skipped ({_reason(report)})")
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped:
        _refuse(report, f"{collector.nodeid} was skipped ({_reason(report)})")
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        COUNTS.update(str(value) for name, value in report.user_properties if name == PROPERTY)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    line = f"postgres {COUNTS['postgresql']}, sqlite {COUNTS['sqlite']}"
    terminalreporter.write_line(line)
    report = config.getoption("--backend-report")
    if report:
        with Path(report).open("a") as file:
            file.write(f"{line}\n")


def _refuse(report: pytest.TestReport | pytest.CollectReport, what: str) -> None:
    report.outcome = "failed"
    report.longrepr = f"{what}: a test runs and passes, or it is removed"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else report.longreprtext
