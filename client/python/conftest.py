"""What holds for each run: no test is skipped in CI, interrupts interrupt, and real processes get a second try.

What a test needs and does not find in CI is a fault of the machine's set-up.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

FLAKY = Path(__file__).parents[2] / ".cache" / "flaky"  # what .ci/run shows at its end


def pytest_configure() -> None:
    """Takes interrupts, and with it the processes that tests start do: a shell's background jobs ignore them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run if a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("tests were skipped, which CI does not allow", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)  # after the marks are there
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has a test that starts real processes run once more if it fails. Unit tests are never run again."""
    for item in items:
        if item.get_closest_marker("fleet") or "torch" in item.path.parts:
            item.add_marker(pytest.mark.flaky(reruns=1))


def _output(report: pytest.TestReport) -> str:
    return f"{report.longreprtext}\n{report.capstdout}{report.capstderr}{report.caplog}\n"


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Names the tests that passed the second time, with what both runs put out."""
    passed = {report.nodeid: report for report in terminalreporter.stats.get("passed", [])}
    for first in terminalreporter.stats.get("rerun", []):
        if second := passed.get(first.nodeid):
            said = f"FLAKY {first.nodeid}\n{_output(first)}--- passed, with the output:\n{_output(second)}"
            terminalreporter.write(said)
            FLAKY.parent.mkdir(exist_ok=True)
            with FLAKY.open("a") as found:
                found.write(said)
