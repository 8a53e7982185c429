"""Reports of replicas: read back as they were written, and nothing else is one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.errors import ContentError
from egress.kubernetes.replica_report import (
    MAX_REPORT_BYTES,
    SUBJECTS,
    ReplicaReport,
    encode_report,
    read_report,
)

WHOLE = {"replica": "egress-proxy-0", "ready": True, "digest": "ab12", "taken": 7, "versions": {"rules": 3}}


@given(
    st.booleans(),
    st.integers(0, 2**62),
    st.dictionaries(st.sampled_from(sorted(SUBJECTS)), st.integers(0, 2**62)),
)
def test_a_report_is_read_back(ready: bool, taken: int, versions: dict[str, int]) -> None:
    report = ReplicaReport("egress-proxy-1", ready, "0f", taken, versions)
    assert read_report(encode_report(report).encode()) == report


def test_a_subject_of_another_release_is_left_out() -> None:
    found = read_report(json.dumps({**WHOLE, "versions": {"rules": 3, "moons": 4}, "more": 1}).encode())
    assert found.versions == {"rules": 3}


@pytest.mark.parametrize(
    "change",
    [
        {"replica": "a\nb"},
        {"replica": ""},
        {"replica": "a" * 254},
        {"digest": "\x1b[31m"},
        {"digest": "a" * 129},
        {"ready": 1},
        {"taken": -1},
        {"versions": {"rules": -1}},
        {"versions": {"rules": 2**63}},
        {"versions": {"rules": True}},
        {"versions": {"rules": "3"}},
        {"versions": [1]},
    ],
)
def test_anything_else_is_refused_without_a_word_of_it(change: dict[str, object]) -> None:
    assert read_report(json.dumps(WHOLE).encode()).replica == "egress-proxy-0", "the good twin"
    with pytest.raises(ContentError) as caught:
        read_report(json.dumps({**WHOLE, **change}).encode())
    assert "\x1b" not in str(caught.value)


@given(st.binary(max_size=300))
def test_other_bytes_are_refused_and_never_break_the_reader(data: bytes) -> None:
    with pytest.raises(ContentError):
        read_report(data)


def test_a_report_has_an_end() -> None:
    with pytest.raises(ContentError, match="too long"):
        read_report(json.dumps(WHOLE).encode() + b" " * MAX_REPORT_BYTES)
