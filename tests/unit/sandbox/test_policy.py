"""The rules of a sandbox need the proxy of a fleet; `tests/api_server` changes them for real."""

from __future__ import annotations

import pytest

from egress.errors import UsageError
from egress.runtime.errors import UnsupportedError
from egress.runtime.fake import FakeRuntime
from egress.sandbox.handle import Sandbox
from tests.fleet.memory_fleet import MemoryFleet


def test_a_runtime_alone_has_no_rules() -> None:
    policy = Sandbox(FakeRuntime(images={"any"}), "one").policy
    assert repr(policy) == "<SandboxPolicy of 'one'>"
    with pytest.raises(UnsupportedError, match="change the rules"):
        policy.show()


def test_a_change_is_read_before_anything_is_asked() -> None:
    estate = MemoryFleet()
    with pytest.raises(UsageError, match="needs an https URL"):
        Sandbox(estate.fleet, "one").policy.allow("api.example.com")
    estate.fleet.close()
