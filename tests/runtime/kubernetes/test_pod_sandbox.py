"""The record of a sandbox, and the sandbox of a record."""

from __future__ import annotations

import pytest

from egress.runtime.kubernetes.kept_pods import MAX_RECORD_BYTES, KeptPod
from egress.runtime.kubernetes.pod_command import PodRun
from egress.runtime.kubernetes.pod_sandbox import PodSandbox, sandbox_of
from egress.runtime.protocol import KeptTerms
from egress.runtime.proxy_client import Admission
from egress.runtime.record_codec import decode_record, encode_record
from egress.runtime.spec import Spec, State

TERMS = KeptTerms("note", 5.0)


@pytest.mark.parametrize("state", ["created", "running", "stopped"])
def test_a_sandbox_comes_back_from_its_record_as_it_was(state: State) -> None:
    run = PodRun("pod", "uid", "containerd://1", "work", "/tmp/.egress-1", is_over=state == "stopped")
    spec = Spec(name="one", image="pool:python", profile="coding", env={"A": "b"})
    before = PodSandbox(spec, Admission("one", "pem"), run, state, "claim-uid", TERMS)
    record = before.record("10.0.0.1:6443", "agents", TERMS)
    read = decode_record(encode_record(record), KeptPod, MAX_RECORD_BYTES)
    assert read == record
    after = sandbox_of(read, "pem")
    assert (after.spec, after.run, after.state, after.claim) == (spec, run, state, "claim-uid")
    assert (after.admission, after.kept, after.recorded) == (before.admission, TERMS, record)
    assert after.record("10.0.0.1:6443", "agents", TERMS) == record
