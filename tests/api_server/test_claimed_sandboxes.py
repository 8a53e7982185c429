"""A client of agent-sandbox finds the sandboxes of its claims and those of nobody, and no others."""

from __future__ import annotations

import pytest

from egress.api_server.claimed_sandboxes import NAMESPACE_LABEL, OWNER, find_sandbox
from egress.fleet.lifetime import SandboxLifetime
from egress.runtime.errors import SandboxNotFoundError
from tests.fleet.memory_fleet import MemoryFleet, spec


@pytest.mark.parametrize(
    ("owner", "labels", "namespace"),
    [
        ("", {}, "default"),
        ("", {NAMESPACE_LABEL: "team-a"}, "default"),
        (OWNER, {NAMESPACE_LABEL: "team-a"}, "team-a"),
    ],
)
def test_a_sandbox_is_found_in_one_namespace(owner: str, labels: dict[str, str], namespace: str) -> None:
    fleet = MemoryFleet().fleet
    fleet.create(spec(labels=labels), SandboxLifetime(owner=owner))
    assert find_sandbox(fleet, "one", namespace).info.name == "one"
    for other in {"default", "team-a", "team-b", ""} - {namespace}:
        with pytest.raises(SandboxNotFoundError):
            find_sandbox(fleet, "one", other)


@pytest.mark.parametrize(("owner", "labels"), [("openai-agents", {}), (OWNER, {})])
def test_a_sandbox_of_another_client_is_found_nowhere(owner: str, labels: dict[str, str]) -> None:
    fleet = MemoryFleet().fleet
    fleet.create(spec(labels=labels), SandboxLifetime(owner=owner))
    for namespace in ("default", "", owner):
        with pytest.raises(SandboxNotFoundError):
            find_sandbox(fleet, "one", namespace)
