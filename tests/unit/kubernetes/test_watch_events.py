"""Events and lists of the API server are read strictly, or not at all."""

from __future__ import annotations

import json

import pytest

from egress.errors import ContentError
from egress.kubernetes import watch_events
from egress.kubernetes.watch_events import (
    MAX_EVENT_BYTES,
    EventType,
    WatchedClaim,
    WatchedPod,
    WatchKind,
    read_address,
    read_event,
    read_list,
    version_number,
)
from tests.unit.kubernetes.watch_samples import Json, claim, event, listed, owner, plain_pod, pod, sandbox


def test_a_pod_has_the_addresses_of_both_families_and_those_of_its_node() -> None:
    found = event(WatchKind.PODS, pod("p", 7, "10.0.0.1", "fd00::1")).object
    assert isinstance(found, WatchedPod)
    assert {str(each) for each in found.addresses} == {"10.0.0.1", "fd00::1"}
    assert {str(each) for each in found.node_addresses} == {"192.0.2.1"}
    assert (found.metadata.version, found.is_over, found.spec.host_network) == (7, False, False)
    assert found.metadata.controller is not None
    assert found.metadata.controller.group == "agents.x-k8s.io"


def test_a_finished_pod_is_over() -> None:
    for phase in ("Succeeded", "Failed"):
        found = event(WatchKind.PODS, pod("p", 7, "10.0.0.1", phase=phase)).object
        assert isinstance(found, WatchedPod)
        assert found.is_over


def test_a_claim_says_its_sandbox_and_its_wishes() -> None:
    value = claim("c", 1, "s", "reviewer")
    wishes = value["spec"]["additionalPodMetadata"]["annotations"]
    wishes |= {"egress/param.REPO": "acme/app", "example.com/large": "x" * 1000}
    found = event(WatchKind.CLAIMS, value).object
    assert isinstance(found, WatchedClaim)
    assert found.sandbox_name == "s"
    assert found.annotations == (("egress/param.REPO", "acme/app"), ("egress/profile", "reviewer"))
    # Whatever is not for Egress is not even kept.
    assert "example.com/large" not in found.spec.additional_pod_metadata.annotations
    bare = event(WatchKind.CLAIMS, {"metadata": claim("c", 1)["metadata"]}).object
    assert isinstance(bare, WatchedClaim)
    assert (bare.sandbox_name, bare.annotations) == ("", ())


def test_of_labels_and_annotations_only_those_for_egress_are_kept() -> None:
    value = plain_pod("p", 1, profile="reviewer")
    value["metadata"]["labels"]["app"] = value["metadata"]["annotations"]["example.com/x"] = "y"
    found = event(WatchKind.PODS, value).object
    assert found is not None
    assert found.metadata.labels == {"egress": "workload"}
    assert found.metadata.annotations == {"egress/profile": "reviewer"}
    assert found.metadata.is_workload
    value["metadata"]["labels"]["egress"] = "other"
    assert not event(WatchKind.PODS, value).object.metadata.is_workload  # type: ignore[union-attr]


def test_two_controllers_are_none() -> None:
    value = sandbox("s", 1)
    value["metadata"]["ownerReferences"].append(owner("SandboxClaim", "c"))
    found = event(WatchKind.SANDBOXES, value).object
    assert found is not None
    assert found.metadata.controller is None


def test_a_bookmark_brings_a_version_and_an_error_a_code() -> None:
    mark = read_event(
        WatchKind.PODS, b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}}'
    )
    assert (mark.type, mark.version, mark.object) == (EventType.BOOKMARK, 9, None)
    error = read_event(WatchKind.PODS, b'{"type":"ERROR","object":{"kind":"Status","code":410}}')
    assert (error.type, error.code, error.object) == (EventType.ERROR, 410, None)


def test_a_list_has_a_version_and_its_objects() -> None:
    found = listed(WatchKind.SANDBOXES, 12, sandbox("a", 3), sandbox("b", 4))
    assert (found.version, [each.metadata.name for each in found.objects]) == (12, ["a", "b"])


def without(value: Json, *path: str) -> Json:
    found = value
    for key in path[:-1]:
        found = found[key]
    del found[path[-1]]
    return value


BROKEN = [
    without(pod("p", 1), "metadata", "uid"),
    without(pod("p", 1), "metadata", "resourceVersion"),
    without(pod("p", 1), "spec"),
    {**pod("p", 1), "metadata": {**pod("p", 1)["metadata"], "uid": ""}},
    {**pod("p", 1), "metadata": {**pod("p", 1)["metadata"], "resourceVersion": "1a"}},
    {**pod("p", 1), "metadata": {**pod("p", 1)["metadata"], "resourceVersion": "-1"}},
    pod("p", 1, "10.0.0.256"),
    pod("p", 1, "fe80::1%eth0"),
    {**pod("p", 1), "status": {"podIPs": "x"}},
    {**pod("p", 1), "spec": {"hostNetwork": "true"}},
]


@pytest.mark.parametrize("value", BROKEN, ids=range(len(BROKEN)))
def test_an_object_that_cannot_be_read_spoils_its_event_and_its_list(value: Json) -> None:
    with pytest.raises(ContentError):
        event(WatchKind.PODS, value)
    with pytest.raises(ContentError):
        listed(WatchKind.PODS, 1, value)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"type":"ODD","object":{}}', b'{"type":"ADDED"}', b"[" * 5000]
)
def test_bytes_that_are_no_event_are_refused(data: bytes) -> None:
    with pytest.raises(ContentError):
        read_event(WatchKind.PODS, data)
    with pytest.raises(ContentError):
        read_list(WatchKind.PODS, data)


def test_sizes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ContentError, match="bytes"):
        read_event(WatchKind.PODS, b" " * (MAX_EVENT_BYTES + 1))
    monkeypatch.setattr(watch_events, "MAX_LISTED_OBJECTS", 1)
    with pytest.raises(ContentError, match="more than 1 objects"):
        listed(WatchKind.SANDBOXES, 1, sandbox("a", 1), sandbox("b", 1))


def test_an_error_quotes_nothing_of_an_object() -> None:
    value = json.dumps({"type": "ADDED", "object": {"metadata": "canary-value"}}).encode()
    with pytest.raises(ContentError) as raised:
        read_event(WatchKind.PODS, value)
    assert "canary" not in str(raised.value) + raised.value.hint


def test_versions_and_addresses_have_one_spelling() -> None:
    assert version_number("0") == 0
    for text in ("", "01", "1.0", " 1", "9" * 20):
        with pytest.raises(ContentError):
            version_number(text)
    assert read_address("::ffff:10.0.0.1") == read_address("10.0.0.1")
    with pytest.raises(ValueError, match="zone"):
        read_address("fe80::1%eth0")
