"""What holds for every test: no stray sockets, modest hypothesis runs, no harm forgiven, no silence.

What takes long begins first.

It must not hold fixtures of one subject: those belong beside the tests that use them.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

HERE = Path(__file__).parent
UNDER_CI = bool(os.environ.get("CI"))

# Hypothesis -----------------------------------------------------------------------------------

# No deadline: a slow machine is not a bug. Not derandomised: each run looks somewhere new, and the
# printed blob brings a failure back.
hypothesis.settings.register_profile("here", max_examples=100, deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", max_examples=200, deadline=None, print_blob=True)
hypothesis.settings.load_profile("ci" if UNDER_CI else "here")

# Sockets --------------------------------------------------------------------------------------

ROOMS_WITH_SOCKETS = (
    "attack/catalogue",
    "cli/sandboxes",
    "container",
    "faults",
    "fleet",
    "proxy",
    "runtime",
    "sandbox",
    "ui",
)


def _refuse(*_args: object, **_kwargs: object) -> NoReturn:
    rooms = " and ".join(f"tests/{room}" for room in ROOMS_WITH_SOCKETS)
    raise RuntimeError(f"this test reaches for the network; only {rooms} may")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse sockets around the whole test, its fixtures of every scope included."""
    if any(item.path.is_relative_to(HERE / room) for room in ROOMS_WITH_SOCKETS):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex", "bind", "sendto"):
            patch.setattr(socket.socket, name, _refuse)
        patch.setattr(socket, "getaddrinfo", _refuse)
        return (yield)


# Order ----------------------------------------------------------------------------------------

MINUTES = 600
"""Seconds: what may take as long as that begins first, so that it does not go on alone at the end."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not _may_take_minutes(item))


def _may_take_minutes(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("timeout")
    return marker is not None and marker.args[0] >= MINUTES


# Harm -----------------------------------------------------------------------------------------

HARM = os.environ.get("EGRESS_TEST_HARM", "")
"""A file that .ci/run looks at: a leak that comes once in two runs is a leak."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write down what no repetition makes good: a test that caught Egress doing harm."""
    if HARM and call.excinfo is not None and _is_harm(call.excinfo.value):
        with Path(HARM).open("a", encoding="utf-8") as file:
            file.write(f"{item.nodeid}: {call.excinfo.value}\n")
    return (yield)


def _is_harm(error: BaseException) -> bool:
    """Whether an exception says so; those of tests/attack/lab/harm.py do."""
    if isinstance(error, BaseExceptionGroup):
        return any(_is_harm(each) for each in error.exceptions)
    return bool(getattr(error, "unforgivable", False))


# Programs of the operating system ---------------------------------------------------------------

LEFT_OUT = "left-out"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out when its program is missing; under CI fail, because there it must run."""
    for marker in item.iter_markers("system"):
        program, package = _wanted(*marker.args)
        if shutil.which(program):
            continue
        if UNDER_CI:
            pytest.fail(f"{program} is missing: add {package} to the packages in .ci/run", pytrace=False)
        item.user_properties.append((LEFT_OUT, f"{program} (apt install {package})"))
        pytest.skip(f"needs {program}")


def _wanted(program: str, package: str = "") -> tuple[str, str]:
    return program, package or program


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End by naming what was left out; say nothing when nothing was."""
    left_out = Counter(
        need
        for report in terminalreporter.stats.get("skipped", [])
        for name, need in report.user_properties
        if name == LEFT_OUT
    )
    for need, count in sorted(left_out.items()):
        tests = "1 test needs" if count == 1 else f"{count} tests need"
        terminalreporter.write_line(f"left out: {tests} {need}", yellow=True)
