"""Loggers that load structlog with their first event."""

from __future__ import annotations

import subprocess
import sys

import pytest
import structlog

from egress.logger import EventLogger

LOAD = "from egress.logger import load_structlog\nload_structlog()\n"


def ran(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_structlog_is_loaded_by_the_first_event_only() -> None:
    shown = "print('structlog' in sys.modules)\n"
    made = "import sys\nfrom egress.logger import EventLogger\nlog = EventLogger('egress.x')\n"
    assert ran(f"{made}{shown}log.info('begun')\n{shown}").stdout.split() == ["False", "True"]


def test_without_a_configuration_events_go_to_standard_error() -> None:
    """Standard output belongs to the command in the sandbox."""
    run = ran("from egress.logger import EventLogger\nEventLogger('egress.x').warning('begun', number=7)")
    assert run.stdout == ""
    assert "begun" in run.stderr
    assert "number" in run.stderr


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "exception"])
def test_events_go_where_the_process_configured_them(level: str) -> None:
    log = EventLogger("egress.x")
    with structlog.testing.capture_logs() as events:
        getattr(log, level)("begun", number=7)
    [event] = events
    assert (event["event"], event["number"]) == ("begun", 7)
    assert event["log_level"] == ("error" if level == "exception" else level)


def test_the_log_of_a_proxy_loads_without_rich_and_leaves_rich_to_others() -> None:
    code = f"import sys\n{LOAD}print('rich' in sys.modules)\nimport rich.text as t\nprint(t.Text('x'))"
    assert ran(code).stdout.split() == ["False", "x"]


def test_rich_that_is_loaded_already_stays() -> None:
    code = f"import sys, rich\n{LOAD}print(sys.modules['rich'] is rich)"
    assert ran(code).stdout.split() == ["True"]
