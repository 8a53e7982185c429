"""What the handle promises, in namespaces."""

from __future__ import annotations

import pytest

from egress.sandbox.handle import Sandbox
from tests.sandbox import full_disk_cases, lasting_cases, network_cases, sleep_cases
from tests.unit.sandbox.contract import CASES, Case

EVERY = (
    *(case for topic in CASES.values() for case in topic),
    *network_cases.CASES,
    *sleep_cases.CASES,
    *lasting_cases.CASES,
)


@pytest.mark.parametrize("promise", EVERY, ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, box: Sandbox) -> None:
    promise(box)


@pytest.mark.parametrize("promise", full_disk_cases.CASES, ids=lambda case: case.__name__)
def test_a_promise_is_kept_on_a_full_disk(promise: Case, small: Sandbox) -> None:
    promise(small)
