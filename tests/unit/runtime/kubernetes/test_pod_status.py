"""What the API server says of a pod, in every shape that it may have."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.runtime.kubernetes.pod_status import PodRecord, PodTrouble, read_pod

METADATA = {"name": "one", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
ENDED = {"exitCode": 1, "message": "first\nlast  words\x1b[31m\n"}


def pod(**status: object) -> PodRecord:
    return read_pod({"metadata": METADATA, "status": status})


def test_a_container_that_runs_has_an_id() -> None:
    running = {"name": "sandbox", "containerID": "containerd://1", "state": {"running": {}}}
    found = pod(phase="Running", containerStatuses=[{"name": "other"}, running])
    assert (found.container, found.trouble(), found.exit_code) == ("containerd://1", None, None)
    assert not found.is_gone


def test_a_pod_that_is_leaving_is_gone() -> None:
    leaving = read_pod({"metadata": {**METADATA, "deletionTimestamp": "2026-01-01T00:00:01Z"}})
    assert leaving.is_gone
    assert leaving.trouble() == PodTrouble("pod", "it was removed")
    assert pod(phase="Succeeded").is_gone


def test_a_message_goes_into_one_line_without_control_characters() -> None:
    gate = {"name": "egress-gate", "state": {"terminated": ENDED}}
    assert pod(initContainerStatuses=[gate]).trouble() == PodTrouble("gate", "first last words[31m")
    ended = {**ENDED, "message": "x" * 5000 + " the end"}
    found = pod(initContainerStatuses=[{**gate, "state": {"terminated": ended}}]).trouble()
    assert found is not None
    assert found.text.endswith("the end")
    assert len(found.text) == 600


@pytest.mark.parametrize(
    ("name", "kind"), [("egress-gate", "gate-image"), ("sandbox", "image")], ids=["gate", "sandbox"]
)
def test_an_image_that_is_missing_is_told_from_that_of_the_gate(name: str, kind: str) -> None:
    waits = {"name": name, "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "not there"}}}
    key = "initContainerStatuses" if name == "egress-gate" else "containerStatuses"
    assert pod(**{key: [waits]}).trouble() == PodTrouble(kind, "not there")  # type: ignore[arg-type]


def test_a_gate_that_is_still_at_it_is_no_trouble() -> None:
    gate = {"name": "egress-gate", "state": {"running": {}}}
    main = {"name": "sandbox", "state": {"waiting": {"reason": "PodInitializing"}}}
    found = pod(phase="Pending", initContainerStatuses=[gate], containerStatuses=[main])
    assert (found.trouble(), found.container, found.delay) == (None, "", "Pending")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 300) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "state", "waiting", "reason", "terminated"]), inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["containerStatuses", "initContainerStatuses", "conditions", "phase"]), JSON)
def test_whatever_is_said_is_a_pod_or_an_error(key: str, value: object) -> None:
    try:
        found = pod(**{key: value})
    except msgspec.ValidationError:
        return
    assert found.trouble() is None or found.trouble()
    assert isinstance(found.delay, str)
