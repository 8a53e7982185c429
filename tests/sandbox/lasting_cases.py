"""What is found again by its id, as cases that run against each kind of real sandbox."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from egress.fleet.http_probe import HttpProbe
from egress.runtime.errors import SandboxDiedError, SandboxTimeoutError
from egress.sandbox.attached_terminal import AttachedTerminal
from egress.sandbox.handle import Sandbox
from tests.sandbox.network_cases import SERVER

SHELL = 'A=kept; while read line; do eval "$line"; done'


def shown(pieces: Iterator[bytes], text: str) -> bytes:
    """Read until the text has come."""
    seen = b""
    for piece in pieces:
        seen += piece
        if text.encode() in seen:
            return seen
    raise AssertionError(f"{text!r} did not come: {seen!r}")


def sized(terminal: AttachedTerminal, size: str) -> None:
    """Ask for the size until it is this one: it is set beside the output."""
    for number in range(500):
        terminal.write(f"stty size; echo told${{A}}{number}.\n")
        if size.encode() in shown(terminal.read(), f"toldkept{number}."):
            return
        time.sleep(0.02)
    raise AssertionError(size)


def a_terminal_is_left_and_come_back_to(box: Sandbox) -> None:
    process = box.start_terminal(["sh", "-c", f"stty -echo; echo ready; {SHELL}"])
    process.wait(30, log="ready")
    with process.attach(cols=100, rows=30) as terminal:
        sized(terminal, "30 100")
        terminal.write("echo first\n")
        shown(terminal.read(), "first")
    again = box.process(process.id)
    with again.attach(cols=90, rows=20) as terminal, again.attach(cols=90, rows=20) as beside:
        assert b"first" in next(terminal.read())
        terminal.resize(cols=70, rows=10)
        sized(terminal, "10 70")
        shown(beside.read(), "10 70")
        beside.write("exit 3\n")
    assert again.wait(30).exit_code == 3


def a_program_with_a_screen_of_its_own_draws_it_again(box: Sandbox) -> None:
    draw = "printf '\\033[?1049hopened'; n=0; trap 'n=$((n+1)); printf drawn$n' WINCH"
    process = box.start_terminal(["sh", "-c", f"{draw}; while :; do sleep 0.1; done"])
    process.wait(30, log="opened")
    for _ in range(2):
        with process.attach() as terminal:
            assert shown(terminal.read(), "drawn").startswith(b"\x1b[!p\x1b[?1049h")
    process.forget()


def a_terminal_that_floods_is_left_and_ended(box: Sandbox) -> None:
    process = box.start_terminal(["sh", "-c", "while :; do echo yes; done"])
    with process.attach() as terminal:
        shown(terminal.read(), "y")
    status = process.status()
    assert status.state == "running"
    process.kill(grace=0)
    assert process.wait(30).state == "ended"
    # No more than its newest output is kept.
    assert len(process.read().data) <= 1024 * 1024


def a_session_is_found_again_by_its_id(box: Sandbox) -> None:
    first = box.session("build", env={"A": "1"})
    first.exec("cd /tmp; B=2")
    again = box.session("build")
    assert again.exec("echo $A$B; pwd").text == "12\n/tmp\n"
    box.stop()
    box.start()
    with pytest.raises(SandboxDiedError):
        again.exec("pwd")
    assert [(each.id, each.state) for each in box.sessions()] == [("build", "lost")]
    # As it was created, and not where it was.
    assert box.session("build").exec("echo $A$B; pwd").text == "1\n/workspace\n"
    again.close()
    assert box.sessions() == []


def a_server_is_waited_for_until_it_answers(box: Sandbox) -> None:
    late = box.start_process(["sh", "-c", f'sleep 0.5; exec python3 -c "{SERVER}"'])
    with pytest.raises(SandboxTimeoutError):
        late.wait(0.1, http=HttpProbe(port=8000, interval=0.05))
    assert late.wait(60, http=HttpProbe(port=8000, interval=0.1)).state == "running"
    with pytest.raises(SandboxTimeoutError):
        late.wait(0.5, http=HttpProbe(port=8000, min_status=500, max_status=599, interval=0.1))
    late.kill(grace=0)


CASES = (
    a_terminal_is_left_and_come_back_to,
    a_program_with_a_screen_of_its_own_draws_it_again,
    a_terminal_that_floods_is_left_and_ended,
    a_session_is_found_again_by_its_id,
    a_server_is_waited_for_until_it_answers,
)
