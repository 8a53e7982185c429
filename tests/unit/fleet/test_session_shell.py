"""The shell of a session: what a program says for it costs no memory, and a line is what was sent."""

from __future__ import annotations

import subprocess
import tracemalloc

from hypothesis import given
from hypothesis import strategies as some

from egress.fleet import session_shell
from egress.runtime.protocol import NO_OUTPUT, Output


def test_a_program_that_says_the_mark_again_and_again_fills_no_memory() -> None:
    """H-5: each of them was kept, and nothing counted them."""
    call = session_shell.ShellCall(NO_OUTPUT)
    said = f"{call.mark} {'0' * 200}\n".encode() * 20
    tracemalloc.start()
    try:
        for _ in range(1000):
            for cutter in call.splitters:
                cutter.add(said)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert call.is_over
    assert kept < 100_000


@given(some.text(some.characters(codec="utf-8", exclude_characters="\0"), max_size=60))
def test_a_line_arrives_as_it_was_sent(line: str) -> None:
    packed = session_shell._pack_line(line)
    assert "\n" not in packed
    words = ["sh", "-c", 'IFS= read -r line; printf "%b" "$line"']
    read = subprocess.run(words, input=f"{packed}\n".encode(), capture_output=True, check=True)
    assert read.stdout == f".{line}".encode()


def test_output_is_kept_up_to_the_limit_and_handed_over_whole() -> None:
    seen: list[bytes] = []
    call = session_shell.ShellCall(Output(stdout=seen.append), 3)
    for piece in (b"--", b"--", b"--"):
        call.splitters[0].add(piece)
    assert (call.stdout.data(), call.stdout.truncated, b"".join(seen)) == (b"---", True, b"------")
