"""A plugin for pytest: writes down which tools are declared, and which proofs passed, by runtime.

    python -m pytest -p tests.tools.record --works-with FILE tests/tools

With --collect-only the file holds what the tests declare and no outcome. What becomes of it is decided by
`scripts/works_with.py`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.tool import Absent, Tool


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--works-with", type=Path, metavar="FILE", help="write what is proven of tools to FILE")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--works-with") is not None:
        config.pluginmanager.register(ToolRecorder(config))


class ToolRecorder:
    """Keeps what it sees until the session ends."""

    def __init__(self, config: pytest.Config) -> None:
        self._file: Path = config.getoption("--works-with")
        self._is_worker = hasattr(config, "workerinput")
        self._tools: dict[str, dict[str, object]] = {}
        self._absent: dict[str, dict[str, str]] = {}
        self._claims: list[tuple[str, str, str, str]] = []
        self._outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """With xdist only the workers collect; an outcome finds its way by name."""
        for item in session.items:
            for tool, fact, runtime in tool_claims(item):
                self._tools.setdefault(tool.name, _declared(tool, item))
                self._claims.append((tool.name, fact, runtime, item.nodeid))
            for value in vars(getattr(item, "module", None)).values():
                if isinstance(value, Absent):
                    self._absent[value.name] = {"family": value.family, "why": value.why}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has passed when none of its three phases says otherwise."""
        if self._outcomes.setdefault(report.nodeid, report.outcome) == "passed":
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        if not self._is_worker:
            found = {
                "tools": self._tools,
                "absent": self._absent,
                "claims": self._claims,
                "outcomes": self._outcomes,
            }
            self._file.write_text(json.dumps(found))


def tool_claims(item: pytest.Item) -> Iterator[tuple[Tool, str, str]]:
    """What a test says that it proves, of which tool, and in which runtime."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    for marker in item.iter_markers("works_with"):
        tool, *facts = marker.args
        yield from ((tool, fact, str(parameters["runtime"])) for fact in facts)


def _declared(tool: Tool, item: pytest.Item) -> dict[str, object]:
    return {
        "family": tool.family,
        "test": item.path.relative_to(item.config.rootpath).as_posix(),
        "version": _version(tool),
        "rules": tool.rules,
        "sets": dict(tool.sets),
        "agent": tool.agent,
        "cannot": dict(tool.cannot),
    }


def _version(tool: Tool) -> str:
    """What the tool says of itself; nothing where it is not there."""
    try:
        return tool.version()
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
