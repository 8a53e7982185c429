"""An Event for each refusal, once, on the object that asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from egress.cluster.api_server import ClusterApi
from egress.cluster.event_writer import ClusterEvent, EventWriter
from egress.kubernetes.pod_identity import IdentityState, PodIdentity
from egress.proxy.pods import refusal_events
from egress.proxy.pods.pod_profile import ProfileChoice
from egress.proxy.pods.refusal_events import RefusalEvents

CLAIMED = PodIdentity("agents", "p", "p-uid", "s", "s-uid", IdentityState.CLAIMED, "c", "c-uid")
PLAIN = PodIdentity("agents", "job", "job-uid", "job", "", IdentityState.PLAIN)
UNKNOWN = ProfileChoice(code="profile.unknown", cause="the rules have no profile of this name")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[ClusterEvent]:
    found: list[ClusterEvent] = []
    monkeypatch.setattr(EventWriter, "tell", lambda _self, event: found.append(event))
    return found


def refusals() -> RefusalEvents:
    api = ClusterApi("127.0.0.1", 1, "agents", Path("nowhere"))
    return RefusalEvents(EventWriter(api, "egress-0", print, lambda: 0))


def test_a_refusal_is_told_once_on_its_claim(told: list[ClusterEvent]) -> None:
    refused = refusals()
    for _ in range(3):
        refused.tell(CLAIMED, UNKNOWN)
    [event] = told
    assert (event.about.kind, event.about.name, event.about.uid) == ("SandboxClaim", "c", "c-uid")
    assert event.about.api_version == "extensions.agents.x-k8s.io/v1beta1"
    assert (event.type, event.reason) == ("Warning", "EgressDenied")
    assert event.message == "everything is denied: the rules have no profile of this name (profile.unknown)"


def test_other_wishes_are_another_refusal(told: list[ClusterEvent]) -> None:
    refused = refusals()
    refused.tell(CLAIMED, UNKNOWN)
    refused.tell(replace(CLAIMED, annotations=(("egress/profile", "x"),)), UNKNOWN)
    refused.tell(replace(CLAIMED, template=(("egress/profile-max", "x"),)), UNKNOWN)
    refused.tell(PLAIN, UNKNOWN)
    assert [event.about.kind for event in told] == ["SandboxClaim"] * 3 + ["Pod"]
    assert told[-1].about.api_version == "v1"


def test_what_was_told_is_bounded(told: list[ClusterEvent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal_events, "MAX_TOLD_REFUSALS", 4)
    refused = refusals()
    for number in range(10):
        refused.tell(replace(CLAIMED, claim_uid=str(number)), UNKNOWN)
    assert len(told) == 10
    assert len(refused._told) == 4
