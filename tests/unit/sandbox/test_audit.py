"""The log of a sandbox needs a fleet; `tests/api_server` reads one of a real proxy."""

from __future__ import annotations

import pytest

from egress.errors import UnreadableError, UsageError
from egress.runtime.errors import UnsupportedError
from egress.runtime.fake import FakeRuntime
from egress.sandbox.handle import Sandbox
from tests.fleet.memory_fleet import MemoryFleet


def test_a_runtime_alone_has_no_log() -> None:
    audit = Sandbox(FakeRuntime(images={"any"}), "one").audit
    assert repr(audit) == "<SandboxAudit of 'one'>"
    with pytest.raises(UnsupportedError, match="show the log"):
        audit.query()


def test_a_fleet_without_a_log_says_so() -> None:
    estate = MemoryFleet()
    with pytest.raises(UnreadableError):
        Sandbox(estate.fleet, "one").audit.query()
    estate.fleet.close()


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"verdict": "maybe"}, {"grep": "a" * 600}], ids=str)
def test_a_condition_that_no_line_can_fit_is_refused(wrong: dict[str, str]) -> None:
    estate = MemoryFleet()
    with pytest.raises(UsageError, match="no line can fit"):
        Sandbox(estate.fleet, "one").audit.query(**wrong)  # type: ignore[arg-type]
    estate.fleet.close()
