"""A session keeps its state, whatever is run in it."""

from __future__ import annotations

import tracemalloc

import pytest

from egress.runtime.protocol import NO_OUTPUT
from egress.sandbox import session
from egress.sandbox.handle import Sandbox
from egress.sandbox.session import _Call
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


def test_a_program_that_says_the_mark_again_and_again_fills_no_memory() -> None:
    """H-5: each of them was kept, and nothing counted them."""
    call = _Call(NO_OUTPUT)
    said = f"{call.mark} {'0' * 200}\n".encode() * 20
    tracemalloc.start()
    try:
        for _ in range(1000):
            for cutter in call.cutters:
                cutter.add(said)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert call.is_over
    assert kept < 100_000


@pytest.mark.parametrize("promise", CASES["session"], ids=lambda case: case.__name__)
@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_promise_is_kept(promise: Case, shell: str, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bash, which is taken where it is found, and in a plain shell."""
    if shell == "sh":
        monkeypatch.setattr(session, "_ANY_SHELL_SCRIPT", 'exec /bin/sh -c "$@"')
    promise(box)
