"""Where ../shared lies beside the checkout everything can be tested, so there a skipped test is a failed run.

Without it the tests that need it skip, and a file of nothing but such tests is no failure.
"""
import pytest

from support import SHARED


def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", [])
    if skipped and SHARED.exists():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    elif skipped and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.stats.get("skipped") and SHARED.exists():
        terminalreporter.write_line("nothing may be skipped where ../shared is there (conftest.py)", red=True)
