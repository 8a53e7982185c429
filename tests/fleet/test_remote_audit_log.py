"""The log of a fleet behind the API raises the errors that its server has."""

from __future__ import annotations

import pytest

from egress.api.log_schema import AuditQuery
from egress.errors import UnreadableError
from egress.runtime.errors import SpecError
from tests.fleet.memory_fleet import MemoryFleet, served


def test_a_fleet_without_a_log_says_so() -> None:
    estate = MemoryFleet()
    with served(estate.fleet) as remote:
        with pytest.raises(UnreadableError, match="no log"):
            remote.audit_log.query("one", AuditQuery())
        with pytest.raises(UnreadableError, match="no log"):
            remote.audit_log.follow("one", AuditQuery())
        with pytest.raises(SpecError):
            remote.audit_log.query("No Name", AuditQuery())
    estate.fleet.close()
