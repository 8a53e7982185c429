"""Whose an address is, step by step; tests/property/test_identity_map.py tries every order."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from egress.kubernetes import identity_map, watched_collection
from egress.kubernetes.identity_map import IdentityMap
from egress.kubernetes.pod_identity import IdentityFault, IdentityState, PodIdentity
from egress.kubernetes.watch_events import EventType, WatchedPod, WatchEvent, WatchKind
from tests.unit.kubernetes.watch_samples import (
    NODE,
    Json,
    claim,
    event,
    listed,
    owner,
    plain_pod,
    pod,
    sandbox,
    template,
)

PODS, SANDBOXES, CLAIMS = WatchKind.PODS, WatchKind.SANDBOXES, WatchKind.CLAIMS
TEMPLATES = WatchKind.TEMPLATES
ADDRESS, OTHER = "10.0.0.1", "10.0.0.2"
CLAIM = owner("SandboxClaim", "c")
REVIEWER = (("egress/profile", "reviewer"),)


def listed_map(**fields: Any) -> IdentityMap:  # noqa: ANN401 - arguments of the map
    """A map of an empty namespace."""
    found = IdentityMap(**fields)
    for kind in WatchKind:
        found.replace(listed(kind, 0))
    return found


def put(identities: IdentityMap, kind: WatchKind, value: Json) -> set[str]:
    return set(identities.apply(event(kind, value)))


def delete(identities: IdentityMap, kind: WatchKind, value: Json) -> set[str]:
    return set(identities.apply(event(kind, value, EventType.DELETED)))


@pytest.fixture
def pooled() -> IdentityMap:
    found = listed_map()
    put(found, SANDBOXES, sandbox("s", 1))
    put(found, PODS, pod("p", 1, ADDRESS))
    return found


@pytest.fixture
def claimed(pooled: IdentityMap) -> IdentityMap:
    put(pooled, CLAIMS, claim("c", 1, "s", "reviewer"))
    put(pooled, SANDBOXES, sandbox("s", 2, CLAIM))
    return pooled


def state(identities: IdentityMap, address: str = ADDRESS) -> str:
    found = identities.find(address)
    return found.state if isinstance(found, PodIdentity) else found


def test_nothing_is_known_before_all_is_listed() -> None:
    identities = IdentityMap()
    for kind in WatchKind:
        assert identities.find(ADDRESS) is IdentityFault.STALE
        identities.replace(listed(kind, 0))
    assert identities.is_current
    assert identities.find(ADDRESS) is IdentityFault.UNKNOWN
    assert identities.find("no address") is IdentityFault.UNKNOWN


def test_a_pooled_sandbox_is_claimed_when_both_ends_say_so(pooled: IdentityMap) -> None:
    assert state(pooled) == IdentityState.POOLED
    put(pooled, CLAIMS, claim("c", 1))
    assert state(pooled) == IdentityState.POOLED
    # The pool has lost it: its connections go, and nothing is allowed until the claim names it.
    assert put(pooled, SANDBOXES, sandbox("s", 2, CLAIM)) == {"p-uid"}
    assert state(pooled) == IdentityFault.PENDING
    assert put(pooled, CLAIMS, claim("c", 2, "s", "reviewer")) == set()
    assert pooled.find(ADDRESS) == PodIdentity(
        "agents", "p", "p-uid", "s", "s-uid", IdentityState.CLAIMED, "c", "c-uid", REVIEWER
    )
    assert pooled.find(f"::ffff:{ADDRESS}") == pooled.find(ADDRESS)


def test_what_happens_to_one_of_a_pool_costs_nothing_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    judge = identity_map._identity

    def noted(found: WatchedPod, *rest: Any) -> PodIdentity:  # noqa: ANN401 - as it takes them
        judged.append(found.metadata.name)
        return judge(found, *rest)

    monkeypatch.setattr(identity_map, "_identity", noted)
    identities = listed_map()
    for number in range(20):
        put(identities, SANDBOXES, sandbox(f"s{number}", 1))
        put(identities, PODS, pod(f"p{number}", 1, f"10.0.1.{number}", sandbox=f"s{number}"))
    judged.clear()
    put(identities, SANDBOXES, sandbox("s3", 2))
    put(identities, SANDBOXES, sandbox("s3", 3, CLAIM))
    assert set(judged) == {"p3"}


def test_another_profile_cuts_and_an_ending_does_not(claimed: IdentityMap) -> None:
    ending = claim("c", 2, "s", "reviewer")
    ending["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z"
    assert put(claimed, CLAIMS, ending) == set()
    assert state(claimed) == IdentityState.ENDING
    assert put(claimed, CLAIMS, claim("c", 3, "s", "admin")) == {"p-uid"}


@pytest.mark.parametrize("kind", [PODS, SANDBOXES, CLAIMS])
def test_a_link_of_the_chain_that_is_deleted_cuts_and_denies(claimed: IdentityMap, kind: WatchKind) -> None:
    values = {
        PODS: pod("p", 9, ADDRESS),
        SANDBOXES: sandbox("s", 9, CLAIM),
        CLAIMS: claim("c", 9, "s"),
    }
    assert delete(claimed, kind, values[kind]) == {"p-uid"}
    expected = IdentityFault.UNKNOWN if kind is PODS else IdentityFault.PENDING
    assert state(claimed) == expected
    # An event from before the deletion does not bring it back.
    stale = values[kind] | {"metadata": values[kind]["metadata"] | {"resourceVersion": "8"}}
    assert put(claimed, kind, stale) == set()
    assert state(claimed) == expected


def test_a_ticket_is_known_as_long_as_a_pod_or_a_claim_has_it(claimed: IdentityMap) -> None:
    noted = claim("c", 2, "s", "reviewer"), pod("p", 3, ADDRESS)
    for each in noted:
        each["metadata"]["annotations"] = {"egress/ticket.t-1": "{}"}
    put(claimed, CLAIMS, noted[0])
    put(claimed, PODS, noted[1])
    assert claimed.has_ticket("egress/ticket.t-1")
    assert not claimed.has_ticket("egress/ticket.t-2")
    put(claimed, CLAIMS, claim("c", 4, "s", "reviewer"))
    assert claimed.has_ticket("egress/ticket.t-1")
    delete(claimed, PODS, pod("p", 5, ADDRESS))
    assert not claimed.has_ticket("egress/ticket.t-1")


def test_two_live_pods_at_one_address_are_both_refused_and_cut(claimed: IdentityMap) -> None:
    put(claimed, SANDBOXES, sandbox("t", 3))
    assert put(claimed, PODS, pod("q", 4, ADDRESS, sandbox="t")) == {"p-uid"}
    assert state(claimed) == IdentityFault.AMBIGUOUS
    # The first one has ended: the address is the second one's.
    put(claimed, PODS, pod("p", 5, ADDRESS, phase="Failed"))
    assert state(claimed) == IdentityState.POOLED
    found = claimed.find(ADDRESS)
    assert isinstance(found, PodIdentity)
    assert found.pod == "q"


def test_a_pod_that_shares_one_of_its_addresses_is_refused_at_both(claimed: IdentityMap) -> None:
    put(claimed, PODS, pod("p", 2, ADDRESS, "fd00::1"))
    assert state(claimed, "fd00::1") == IdentityState.CLAIMED
    assert put(claimed, PODS, pod("q", 3, "fd00::1", sandbox="none")) == {"p-uid"}
    assert (state(claimed), state(claimed, "fd00::1")) == (IdentityFault.AMBIGUOUS, IdentityFault.AMBIGUOUS)


def test_an_address_that_a_pod_gives_up_is_cut_and_one_that_it_gets_is_not(claimed: IdentityMap) -> None:
    assert put(claimed, PODS, pod("p", 2, ADDRESS, OTHER)) == set()
    assert put(claimed, PODS, pod("p", 3, OTHER)) == {"p-uid"}
    assert (state(claimed), state(claimed, OTHER)) == (IdentityFault.UNKNOWN, IdentityState.CLAIMED)


def test_addresses_of_nodes_and_services_are_nobodys(claimed: IdentityMap) -> None:
    assert state(claimed, NODE) == IdentityFault.NAT
    assert listed_map(shared=[ip_network("10.96.0.0/12")]).find("10.96.0.1") is IdentityFault.NAT
    host = pod("h", 2, NODE)
    host["spec"]["hostNetwork"] = True
    put(claimed, PODS, host)
    assert state(claimed, NODE) == IdentityFault.HOST_NETWORK
    assert put(claimed, PODS, pod("p", 3, NODE)) == {"p-uid"}
    assert state(claimed) == IdentityFault.UNKNOWN
    # A node that appears with the address of a pod takes it away.
    put(claimed, PODS, pod("p", 4, ADDRESS))
    node = pod("q", 5, OTHER, sandbox="none")
    node["status"]["hostIP"] = ADDRESS
    assert put(claimed, PODS, node) == {"p-uid"}
    assert state(claimed) == IdentityFault.NAT


def test_a_pod_or_sandbox_of_somebody_else_has_no_identity() -> None:
    identities = listed_map()
    stranger = pod("p", 1, ADDRESS)
    stranger["metadata"]["ownerReferences"] = [owner("SandboxClaim", "c")]
    put(identities, PODS, stranger)
    assert state(identities) == IdentityFault.UNOWNED
    put(identities, PODS, pod("p", 2, ADDRESS))
    assert state(identities) == IdentityFault.PENDING
    bare = sandbox("s", 1)
    bare["metadata"]["ownerReferences"] = []
    put(identities, SANDBOXES, bare)
    assert state(identities) == IdentityFault.UNCLAIMED
    put(identities, SANDBOXES, sandbox("s", 2, owner("SandboxTemplate", "x")))
    assert state(identities) == IdentityFault.UNCLAIMED


def test_a_pod_with_the_label_and_without_a_sandbox_is_a_sandbox_of_its_own() -> None:
    identities = listed_map()
    assert put(identities, PODS, plain_pod("job", 1, ADDRESS, profile="reviewer")) == set()
    assert identities.find(ADDRESS) == PodIdentity(
        "agents", "job", "job-uid", "job", "", IdentityState.PLAIN, annotations=REVIEWER
    )
    assert put(identities, PODS, plain_pod("job", 2, ADDRESS, profile="admin")) == {"job-uid"}
    ending = plain_pod("job", 3, ADDRESS, profile="admin")
    ending["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z"
    assert put(identities, PODS, ending) == set()
    assert state(identities) == IdentityState.ENDING
    # Without the label it has no rights, whatever else it says.
    bare = plain_pod("job", 4, ADDRESS, profile="admin")
    bare["metadata"]["labels"] = {"egress": "worklaod"}
    assert put(identities, PODS, bare) == {"job-uid"}
    assert state(identities) == IdentityFault.UNOWNED


def test_the_label_gives_nothing_to_a_pod_that_says_it_belongs_to_a_sandbox() -> None:
    identities = listed_map()
    for owners in ([owner("Sandbox", "s")], [owner("Sandbox", "s") | {"controller": False}]):
        value = plain_pod("p", 1, ADDRESS)
        value["metadata"]["ownerReferences"] = owners
        put(identities, PODS, value)
        assert state(identities) == IdentityFault.PENDING


def test_a_plain_pod_loses_its_name_to_a_sandbox() -> None:
    identities = listed_map()
    put(identities, PODS, plain_pod("s", 1, ADDRESS))
    assert put(identities, SANDBOXES, sandbox("s", 1)) == {"s-uid"}
    assert state(identities) == IdentityFault.AMBIGUOUS
    assert delete(identities, SANDBOXES, sandbox("s", 2)) == set()
    assert state(identities) == IdentityState.PLAIN


def test_a_pod_is_found_at_its_address_before_it_has_any_rights() -> None:
    identities = listed_map()
    put(identities, PODS, pod("p", 1, ADDRESS))
    assert state(identities) == IdentityFault.PENDING
    found = identities.pod_at(ADDRESS)
    assert isinstance(found, WatchedPod)
    assert found.metadata.uid == "p-uid"
    assert identities.has_pod("p-uid")
    put(identities, PODS, pod("p", 2, ADDRESS, phase="Failed"))
    assert identities.pod_at(ADDRESS) is IdentityFault.UNKNOWN
    assert not identities.has_pod("p-uid")
    put(identities, PODS, pod("q", 3, ADDRESS))
    put(identities, PODS, pod("r", 4, ADDRESS))
    assert identities.pod_at(ADDRESS) is IdentityFault.AMBIGUOUS


@pytest.mark.parametrize("kind", [SANDBOXES, CLAIMS])
def test_a_kind_that_the_cluster_does_not_know_any_more_cuts_and_denies(
    claimed: IdentityMap, kind: WatchKind
) -> None:
    put(claimed, PODS, plain_pod("job", 5, OTHER))
    claimed.lose(kind)
    assert claimed.clear(kind) == {"p-uid"}
    assert (state(claimed), state(claimed, OTHER)) == (IdentityFault.PENDING, IdentityState.PLAIN)
    # Installed anew, with whatever versions.
    claimed.replace(listed(SANDBOXES, 9, sandbox("s", 2, CLAIM)))
    claimed.replace(listed(CLAIMS, 9, claim("c", 2, "s")))
    assert state(claimed) == IdentityState.CLAIMED


def test_the_chain_goes_by_uid_and_stays_in_a_namespace(claimed: IdentityMap) -> None:
    # A sandbox of the same name that was made anew has another UID.
    again = sandbox("s", 3, CLAIM)
    again["metadata"]["uid"] = "s-uid-2"
    put(claimed, SANDBOXES, again)
    assert state(claimed) == IdentityFault.AMBIGUOUS
    delete(claimed, SANDBOXES, sandbox("s", 4, CLAIM))
    assert state(claimed) == IdentityFault.PENDING
    for kind, value in ((SANDBOXES, sandbox("s", 9, CLAIM)), (CLAIMS, claim("c", 9, "s"))):
        identities = listed_map()
        put(identities, SANDBOXES, sandbox("s", 2, CLAIM))
        put(identities, CLAIMS, claim("c", 1, "s"))
        put(identities, PODS, pod("p", 1, ADDRESS))
        value["metadata"]["namespace"] = "other"
        assert put(identities, kind, value) == {"p-uid"}
        assert state(identities) == IdentityFault.PENDING


def test_a_claim_that_names_another_sandbox_gives_nothing(claimed: IdentityMap) -> None:
    assert put(claimed, CLAIMS, claim("c", 2, "t")) == {"p-uid"}
    assert state(claimed) == IdentityFault.PENDING


def test_a_lost_watch_denies_everybody_and_the_next_list_cuts_who_has_lost(claimed: IdentityMap) -> None:
    assert claimed.apply(WatchEvent(EventType.ERROR, CLAIMS, code=410)) == frozenset()
    assert state(claimed) == IdentityFault.STALE
    # An answer from before what is known says nothing.
    claimed.replace(listed(CLAIMS, 5, claim("c", 1, "s", "reviewer")))
    assert state(claimed) == IdentityState.CLAIMED
    claimed.lose(CLAIMS)
    assert claimed.replace(listed(CLAIMS, 4)) == frozenset()
    assert state(claimed) == IdentityFault.STALE
    assert claimed.replace(listed(CLAIMS, 6)) == {"p-uid"}
    assert state(claimed) == IdentityFault.PENDING


def test_a_bookmark_changes_nothing(claimed: IdentityMap) -> None:
    assert claimed.apply(WatchEvent(EventType.BOOKMARK, PODS, version=99)) == frozenset()
    assert state(claimed) == IdentityState.CLAIMED


def test_more_objects_than_fit_deny_everybody(claimed: IdentityMap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_collection, "MAX_LISTED_OBJECTS", 1)
    put(claimed, PODS, pod("q", 2, OTHER))
    assert state(claimed) == IdentityFault.STALE


# Templates -----------------------------------------------------------------------------------------------


def template_of(identities: IdentityMap) -> object:
    found = identities.find(ADDRESS)
    return found.template if isinstance(found, PodIdentity) else found


def test_what_a_template_says_is_a_part_of_the_identity_and_its_change_cuts(claimed: IdentityMap) -> None:
    assert template_of(claimed) == ()
    # The controller has recorded a template that no watch has told of: nobody knows its ceiling.
    assert put(claimed, SANDBOXES, sandbox("s", 9, CLAIM, "t")) == {"p-uid"}
    assert template_of(claimed) is None
    assert put(claimed, TEMPLATES, template("t", 2, profile_max="reader")) == {"p-uid"}
    assert template_of(claimed) == (("egress/profile-max", "reader"),)
    # Another template, and another field of this one, change nothing.
    assert put(claimed, TEMPLATES, template("u", 3, profile_max="admin")) == set()
    assert put(claimed, TEMPLATES, template("t", 4, profile_max="reader")) == set()
    assert put(claimed, TEMPLATES, template("t", 5, profile_max="reader,admin")) == {"p-uid"}
    assert delete(claimed, TEMPLATES, template("t", 6)) == {"p-uid"}
    assert template_of(claimed) is None


def test_a_template_that_is_made_anew_holds_once_the_old_one_is_gone(claimed: IdentityMap) -> None:
    put(claimed, TEMPLATES, template("t", 2, profile_max="reader"))
    put(claimed, SANDBOXES, sandbox("s", 9, CLAIM, "t"))
    anew = template("t", 3, profile_max="admin")
    anew["metadata"]["uid"] = "t-new"
    assert put(claimed, TEMPLATES, anew) == {"p-uid"}
    assert template_of(claimed) is None
    delete(claimed, TEMPLATES, template("t", 4))
    assert template_of(claimed) == (("egress/profile-max", "admin"),)


def test_nobody_has_an_identity_until_the_templates_are_listed(claimed: IdentityMap) -> None:
    claimed.lose(TEMPLATES)
    assert template_of(claimed) == IdentityFault.STALE
    claimed.replace(listed(TEMPLATES, 20))
    assert template_of(claimed) == ()


def test_a_plain_pod_and_a_pooled_one_have_no_template(claimed: IdentityMap) -> None:
    put(claimed, TEMPLATES, template("t", 2, profile_max="reader"))
    put(claimed, PODS, plain_pod("job", 3, "10.0.0.9"))
    found = claimed.find("10.0.0.9")
    assert isinstance(found, PodIdentity)
    assert found.template == ()


def test_how_far_a_collection_is_known_and_its_newest_change() -> None:
    identities = IdentityMap()
    identities.replace(listed(PODS, 9, pod("p", 4, ADDRESS)))
    assert (identities.reached(PODS), identities.changed(PODS)) == (9, 4)
    put(identities, PODS, pod("p", 11, ADDRESS))
    assert (identities.reached(PODS), identities.changed(PODS)) == (11, 11)
    identities.apply(WatchEvent(EventType.BOOKMARK, PODS, version=20))
    assert (identities.reached(PODS), identities.changed(PODS)) == (20, 11)
    # An object that was asked for by itself says nothing about the changes before it.
    identities.apply(event(PODS, pod("q", 30, "10.0.0.9")), is_watched=False)
    assert (identities.reached(PODS), identities.changed(PODS)) == (20, 11)
    identities.clear(PODS)
    assert (identities.reached(PODS), identities.changed(PODS)) == (0, 0)


def test_the_other_pods_of_a_controller_are_the_other_replicas() -> None:
    def replica(number: int, address: str, made_by: str = "set", **fields: str) -> Json:
        found = pod(f"egress-proxy-{number}", 1, address, **fields)
        found["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": made_by,
                "uid": made_by,
                "controller": True,
            }
        ]
        return found

    identities = IdentityMap()
    pods = [
        replica(0, "10.0.0.1"),
        replica(1, "10.0.0.2"),
        replica(2, "10.0.0.3", phase="Failed"),
        replica(3, "10.0.0.4", "another-set"),
        plain_pod("job", 1, "10.0.0.5"),
    ]
    identities.replace(listed(PODS, 9, *pods))
    assert identities.siblings("egress-proxy-0") == frozenset(), "before the map is current"
    for kind in (SANDBOXES, CLAIMS, WatchKind.TEMPLATES):
        identities.replace(listed(kind, 0))
    assert {str(each) for each in identities.siblings("egress-proxy-0")} == {"10.0.0.2"}
    assert identities.siblings("job") == identities.siblings("nobody") == frozenset()
    assert [each.metadata.uid for each in identities.pods_named("egress-proxy-0")] == ["egress-proxy-0-uid"]
