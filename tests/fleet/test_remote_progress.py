"""A fleet behind the API tells the stages of a call, and ends it as the plain call does."""

from __future__ import annotations

import pytest

from egress.fleet.errors import SandboxDiffersError
from egress.fleet.lifetime import SandboxLifetime
from egress.runtime.errors import UnsupportedError
from egress.runtime.stages import reporting_stages
from tests.fleet.memory_fleet import MemoryFleet, served, spec


def test_a_call_is_the_same_with_and_without_a_listener() -> None:
    estate = MemoryFleet()
    told: list[str] = []
    with served(estate.fleet) as remote:
        plain = remote.create(spec())
        with reporting_stages(told.append):
            assert remote.create(spec()) == plain
            assert remote.start("one").state == "running"
            with pytest.raises(SandboxDiffersError, match="timeout"):
                remote.create(spec(), SandboxLifetime(timeout=5))
            with pytest.raises(UnsupportedError):
                remote.snapshot("one", "first")
    # A stage that is over at once may be passed over.
    assert set(told) <= {"", "preparing the image", "creating the sandbox", "starting the sandbox"}
    estate.fleet.close()
