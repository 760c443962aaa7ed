"""What holds for each run: no test is skipped in CI, and interrupts interrupt.

What a test needs and does not find in CI is a fault of the machine's set-up.
"""

from __future__ import annotations

import os
import signal

import pytest


def pytest_configure() -> None:
    """Takes interrupts, and with it the processes that tests start do: a shell's background jobs ignore them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run if a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("tests were skipped, which CI does not allow", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
