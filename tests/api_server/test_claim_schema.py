"""Objects have the spelling of agent-sandbox, both those that are sent and those that are answered."""

from __future__ import annotations

import msgspec
import pytest

from egress.api_server.claim_schema import ClaimedSandbox, ClaimManifest, ClaimStatus, Condition
from tests.api_server.claim_lab import manifest


def test_what_is_answered_is_spelled_as_in_a_cluster() -> None:
    ready = Condition(type="Ready", status="True", reason="a", message="b", last_transition_time="c")
    status = ClaimStatus(conditions=(ready,), sandbox=ClaimedSandbox(name="one", pod_ips=("192.0.2.1",)))
    assert msgspec.to_builtins(status) == {
        "conditions": (
            {"type": "Ready", "status": "True", "reason": "a", "message": "b", "lastTransitionTime": "c"},
        ),
        "sandbox": {"name": "one", "podIPs": ("192.0.2.1",)},
    }


def test_what_is_sent_is_answered_in_the_same_spelling() -> None:
    sent = manifest(
        "mine",
        lifecycle={"shutdownTime": "2040-01-01T00:00:00Z", "shutdownPolicy": "Delete"},
        additionalPodMetadata={"labels": {"a": "b"}},
    )
    read = msgspec.json.decode(msgspec.json.encode(sent), type=ClaimManifest)
    assert msgspec.json.decode(msgspec.json.encode(read.spec)) == sent["spec"]


@pytest.mark.parametrize("time", ["2040-01-01T00:00:00", "tomorrow", "2040-13-01T00:00:00Z", 5])
def test_a_time_without_a_zone_is_none(time: object) -> None:
    sent = manifest("mine", lifecycle={"shutdownTime": time})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(sent), type=ClaimManifest)
