"""The rules of sandboxes are asked of their proxy, and its refusals have their types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from egress.api.policy_schema import GrantSettings
from egress.fleet.errors import GrantBeyondError, GrantNotFoundError, GrantRefusedError
from egress.fleet.protocol import FleetInfo
from egress.fleet.proxy_policies import ProxyPolicies
from egress.runtime.errors import GatewayError, GatewayRefusedError, SandboxNotFoundError, SpecError
from tests.fleet.memory_fleet import MemoryFleet
from tests.fleet.test_control_client import answering, http

SETTINGS = GrantSettings(kind="profile", ttl=5, profile="a")


@contextmanager
def policies(body: object, status: str) -> Iterator[ProxyPolicies]:
    with answering(http(json.dumps(body).encode(), status)) as folder:
        yield ProxyPolicies(lambda: FleetInfo(kind="fake", runtime_dir=folder), lambda _: None)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("400 Bad Request", SpecError),
        ("403 Forbidden", GrantBeyondError),
        ("409 Conflict", GrantRefusedError),
        ("503 Service Unavailable", GatewayRefusedError),
        ("404 Not Found", GatewayRefusedError),
    ],
)
def test_a_refusal_has_its_type(status: str, error: type[Exception]) -> None:
    with policies({"error": "no", "hint": "ask less"}, status) as found, pytest.raises(error) as caught:
        found.grant("one", SETTINGS)
    assert type(caught.value) is error
    assert str(caught.value) == "no"


def test_an_answer_of_another_form_is_no_answer() -> None:
    with policies({"id": 5}, "201 Created") as found, pytest.raises(GatewayRefusedError, match="another"):
        found.grant("one", SETTINGS)


def test_a_grant_that_is_not_there_is_not_asked_to_end() -> None:
    shown = {"sandbox": "one", "policy": "digest", "grants": []}
    with policies(shown, "200 OK") as found, pytest.raises(GrantNotFoundError):
        found.undo("one", "g-1")


def test_without_a_proxy_there_are_no_rules() -> None:
    estate = MemoryFleet()
    with pytest.raises(SandboxNotFoundError):
        estate.fleet.policies.show("one")
    with pytest.raises(GatewayError, match="have no proxy"):
        ProxyPolicies(lambda: estate.fleet.about, lambda _: None).show("one")
    estate.fleet.close()
