"""A watch tells what changes."""

from __future__ import annotations

import pytest

from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.contract import CASES, Case


@pytest.mark.parametrize("promise", CASES["watch"], ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, box: Sandbox) -> None:
    promise(box)
