"""The rules of a sandbox behind the API: each call raises what the fleet itself raises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from egress.api.handler_schema import HandlerSettings
from egress.api.policy_schema import GrantSettings, RequestSettings
from egress.fleet.policies import FleetPolicies
from egress.runtime.errors import GatewayError, SandboxNotFoundError
from tests.fleet.memory_fleet import MemoryFleet, served, spec

CALLS: list[Callable[[FleetPolicies, str], object]] = [
    lambda found, name: found.show(name),
    lambda found, name: found.grant(name, GrantSettings(kind="profile", ttl=5, profile="a")),
    lambda found, name: found.undo(name, "g-1"),
    lambda found, name: found.handlers(name),
    lambda found, name: found.choose_handlers(name, HandlerSettings()),
    lambda found, name: found.explain(name, RequestSettings(url="https://a.example")),
]


@pytest.mark.parametrize("call", CALLS, ids=["show", "grant", "undo", "handlers", "choose", "explain"])
def test_a_call_fails_as_it_does_in_the_process(call: Callable[[FleetPolicies, str], object]) -> None:
    estate = MemoryFleet()
    with served(estate.fleet) as remote:
        with pytest.raises(SandboxNotFoundError):
            call(remote.policies, "one")
        estate.fleet.create(spec())
        with pytest.raises(GatewayError, match="have no proxy"):
            call(remote.policies, "one")
    estate.fleet.close()
