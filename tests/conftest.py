"""What holds for every test: no stray sockets, modest hypothesis runs, no harm forgiven, no silence.

What takes long begins first. The tests are divided twice: into pools, which run one after another with as
many workers as suit them, and into the gate and what only the night runs.

It must not hold fixtures of one subject: those belong beside the tests that use them.
"""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import shutil
import signal
import socket
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

from tests.file_queue import FileQueue

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

HERE = Path(__file__).parent
UNDER_CI = bool(os.environ.get("CI"))

IS_NIGHTLY = os.environ.get("EGRESS_TEST_TIER") == "nightly"
KUBE_ROUTER = os.environ.get("EGRESS_TEST_KUBE_ROUTER", "")
"""A kube-router that somebody has built, for trials to enforce policies by."""

AGENT_SANDBOX = os.environ.get("EGRESS_TEST_AGENT_SANDBOX", "")
"""The sources of agent-sandbox with its programs, built, in `bin`: for trials to use instead of stand-ins."""

# pytest compiles tests its own way. Where PYTHONDONTWRITEBYTECODE is set, as in many images, each process of
# each run would do that anew, which is half of the time that it takes to collect them.
sys.dont_write_bytecode = False

# Hypothesis -----------------------------------------------------------------------------------

GATE_EXAMPLES = 50
# No deadline: a slow machine is not a bug. Not derandomised: each run looks somewhere new, and the
# printed blob brings a failure back.
hypothesis.settings.register_profile("gate", max_examples=GATE_EXAMPLES, deadline=None, print_blob=True)
hypothesis.settings.register_profile("nightly", max_examples=2000, deadline=None, print_blob=True)
hypothesis.settings.load_profile("nightly" if IS_NIGHTLY else "gate")

# Sockets --------------------------------------------------------------------------------------

ROOMS_WITH_SOCKETS = (
    "api",
    "api_server",
    "attack/catalogue",
    "cli/sandboxes",
    "cluster",
    "container",
    "faults",
    "fleet",
    "integrations",
    "mcp",
    "netlock",
    "peers",
    "proxy",
    "runtime",
    "sandbox",
    "tools",
    "ui",
    "telemetry",
    "unix",
)


def _refuse(*_args: object, **_kwargs: object) -> NoReturn:
    rooms = " and ".join(f"tests/{room}" for room in ROOMS_WITH_SOCKETS)
    raise RuntimeError(f"this test reaches for the network; only {rooms} may")


@functools.cache
def _may_have_sockets(file: Path) -> bool:
    return is_in(file, ROOMS_WITH_SOCKETS)


def is_in(file: Path, rooms: Iterable[str]) -> bool:
    """Whether a file of tests is in one of these rooms; compared as text, which is quick."""
    return str(file).startswith(tuple(f"{HERE}/{room}/" for room in rooms))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse sockets around the whole test, its fixtures of every scope included."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("real_process"):
            # tests/cli/command.py looks at it, and starts what it would fork.
            patch.setenv("EGRESS_TEST_REAL", "1")
        if _may_have_sockets(item.path):
            return (yield)
        for name in ("connect", "connect_ex", "bind", "sendto"):
            patch.setattr(socket.socket, name, _refuse)
        patch.setattr(socket, "getaddrinfo", _refuse)
        return (yield)


# Pools ----------------------------------------------------------------------------------------

POOLS = {
    "catalogue": ("attack/catalogue",),
    "waiting": (
        "cli",
        "container",
        "docs",
        "faults",
        "fleet",
        "integrations",
        "proxy",
        "runtime",
        "sandbox",
        "soak",
        "tools",
        "ui",
    ),
}
"""Rooms by pool. All others compute, and are in the pool of that name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pool", choices=("computing", *POOLS), help="run the tests of one pool alone")
    parser.addoption("--times", metavar="FILE", help="write down what each file took, and what failed")
    parser.addoption("--queue", metavar="FILE", help="take files from this queue, as other processes do")
    parser.addoption("--at-once", metavar="N", type=int, default=1, help="how many files to take from it")


def pool_of(path: Path) -> str:
    """The pool that a file is in."""
    return next((pool for pool, rooms in POOLS.items() if is_in(path, rooms)), "computing")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    pool = config.getoption("--pool")
    is_elsewhere = pool and collection_path.suffix == ".py" and pool_of(collection_path) != pool
    return True if is_elsewhere else None


# Tiers and order ------------------------------------------------------------------------------

MINUTES = 600
"""Seconds: what may take as long as that begins first, so that it does not go on alone at the end."""

SLOW_FILES = (
    "container/test_images.py",
    "runtime/test_escapes.py",
    "runtime/test_runtime.py",
    "faults/test_every_byte.py",
    "sandbox/docker/test_docker.py",
    "ui/test_browser.py",
    "fleet/test_opening.py",
    "runtime/kit/test_clients.py",
    "faults/test_streams.py",
    "runtime/test_canary_planting.py",
    "runtime/test_proc_scripts.py",
    "fleet/test_running_proxies.py",
    "proxy/clients/test_java.py",
    "runtime/kit/test_inside.py",
    "proxy/clients/test_python.py",
    "proxy/clients/test_go.py",
    "sandbox/namespace/test_remote.py",
    "container/test_compose.py",
    "runtime/namespace/test_escapes.py",
    "runtime/namespace/test_planting.py",
    "cli/sandboxes/test_image_doctor.py",
    "proxy/test_neighbours.py",
    "runtime/test_faults.py",
    "runtime/namespace/test_runtime.py",
    "proxy/clients/test_maven.py",
    "attack/catalogue/test_exhaustion.py",
    "attack/catalogue/test_secrets_at_rest.py",
    "attack/catalogue/test_audit_trail.py",
    "attack/catalogue/test_rules_in_force.py",
    "attack/catalogue/test_identity.py",
    "attack/catalogue/test_destinations.py",
)
"""Files that take longest of their pool, the longest one first; they begin next."""


def _files_in_order(config: pytest.Config) -> list[str]:
    """What the arguments name, as files of this pool; those that take longest come first."""
    pool = config.getoption("--pool")
    found: list[tuple[Path, str]] = []
    for name in config.args:
        path = Path(config.invocation_params.dir, name.partition("::")[0])
        if path.is_dir():
            found += [(file, str(file)) for file in sorted(path.rglob("test_*.py"))]
        else:
            found.append((path, name))
    places = {HERE / name: place for place, name in enumerate(SLOW_FILES)}

    def order(entry: tuple[Path, str]) -> tuple[bool, int, int]:
        path, _ = entry
        text = path.read_text(encoding="utf-8")
        limits = [int(limit) for limit in re.findall(r"\btimeout\(([0-9]+)\)", text)]
        return max(limits, default=0) < MINUTES, places.get(path, len(places)), -len(text)

    return [name for _, name in sorted((entry for entry in found if pool_of(entry[0]) == pool), key=order)]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for_the_night = [] if IS_NIGHTLY else [item for item in items if item.get_closest_marker("nightly")]
    if for_the_night:
        config.hook.pytest_deselected(items=for_the_night)
        items[:] = [item for item in items if item.get_closest_marker("nightly") is None]
    places = {HERE / name: place for place, name in enumerate(SLOW_FILES)}
    # The rest of a pool by the number of its tests: many tests take longer than few.
    counts = Counter(item.path for item in items if config.getoption("--pool") in POOLS)
    items.sort(
        key=lambda item: (
            not _may_take_minutes(item),
            places.get(item.path, len(places)),
            -counts[item.path],
        )
    )


def _may_take_minutes(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("timeout")
    return marker is not None and marker.args[0] >= MINUTES


# Time -----------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # A run under nohup inherits that, and so would all that tests start. A handler of our own protects
        # the run just as well, and is no part of what a child inherits.
        signal.signal(signal.SIGHUP, lambda *_: None)
    if queue := config.getoption("--queue"):
        names = functools.partial(_files_in_order, config)
        config.pluginmanager.register(FileQueue(Path(queue), config.getoption("--at-once"), names))
    # Workers send what they measured to the one process that writes it down.
    if (file := config.getoption("--times")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(Path(file)))


class Record:
    """What each file of tests took, and which tests failed: for scripts/gate.py."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._files: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        took = self._files[report.nodeid.partition("::")[0]]
        took[0] += report.when == "call"
        took[1] += report.duration
        took[2] += getattr(report, "processor", 0.0)
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        found = {"files": self._files, "failed": sorted(self._failed)}
        self._file.write_text(json.dumps(found), encoding="utf-8")


class _Processor:
    """Processor time of this process, and of those that it began and that have ended."""

    last = 0.0

    @classmethod
    def since(cls) -> float:
        """Seconds since it was asked before."""
        used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        # The fork server's processes are no children of this one; it says itself what they took.
        forked = getattr(sys.modules.get("tests.cli.forked"), "used", 0.0)
        now = forked + sum(each.ru_utime + each.ru_stime for each in used)
        cls.last, before = now, cls.last
        return now - before


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
    report = yield
    report.processor = _Processor.since()  # type: ignore[attr-defined] # it travels with the report
    return report


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
