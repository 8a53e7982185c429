"""What the handle promises, in containers."""

from __future__ import annotations

import pytest

from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.contract import CASES, Case


@pytest.mark.parametrize(
    "promise", [case for topic in CASES.values() for case in topic], ids=lambda case: case.__name__
)
def test_a_promise_is_kept(promise: Case, box: Sandbox) -> None:
    promise(box)
