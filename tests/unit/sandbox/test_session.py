"""A session keeps its state, whatever is run in it."""

from __future__ import annotations

import pytest

from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.contract import CASES, Case


def test_a_command_that_speaks_for_the_shell_is_no_more_than_wrong(box: Sandbox) -> None:
    """It can know the mark, for it runs in the shell; what it says then need be no status."""
    with box.session() as session:
        for status in ("evil", "-1", "9" * 30):
            result = session.exec(
                f'printf "%s {status}\\n" "$_egress_mark"; printf "%s\\n" "$_egress_mark" >&2'
            )
            assert result.exit_code == 1
    with box.session() as session:
        assert session.exec("(exit 7)").exit_code == 7


@pytest.mark.parametrize("promise", CASES["session"], ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, box: Sandbox) -> None:
    promise(box)
