"""A session keeps its state, whatever is run in it."""

from __future__ import annotations

import pytest

from egress.fleet import session_shell
from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.contract import CASES, Case


def test_a_command_that_speaks_for_the_shell_is_no_more_than_wrong(box: Sandbox) -> None:
    """It can know the mark, for it runs in the shell; what it says then need be no status."""
    with box.session() as shell:
        for status in ("evil", "-1", "9" * 30):
            result = shell.exec(
                f'printf "%s {status}\\n" "$_egress_mark"; printf "%s\\n" "$_egress_mark" >&2'
            )
            assert result.exit_code == 1
    with box.session() as shell:
        assert shell.exec("(exit 7)").exit_code == 7


@pytest.mark.parametrize("promise", CASES["session"], ids=lambda case: case.__name__)
@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_promise_is_kept(promise: Case, shell: str, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bash, which is taken where it is found, and in a plain shell."""
    if shell == "sh":
        monkeypatch.setattr(session_shell, "_ANY_SHELL_SCRIPT", 'exec /bin/sh -c "$@"')
    promise(box)
