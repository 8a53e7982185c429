"""Names of signals, and what a script in the sandbox is told of them."""

from __future__ import annotations

import signal

import pytest

from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.process_signal import send_signal, signal_name
from egress.runtime.spec import Command, ExecResult


def test_a_signal_has_one_name() -> None:
    assert {signal_name(each) for each in ("HUP", "sighup", signal.SIGHUP, 1)} == {"HUP"}
    for wrong in ("", "NONE", "HUP; true", 0, 999):
        with pytest.raises(SpecError):
            signal_name(wrong)


def test_the_mark_and_the_name_are_words_of_the_script() -> None:
    begun: list[Command] = []
    status = 44

    def run(command: Command) -> ExecResult:
        begun.append(command)
        return ExecResult(exit_code=status)

    send_signal(run, "token", "HUP")
    assert begun[0].argv[-2:] == ("HUP", "EGRESS_COMMAND=token")
    status = 127
    with pytest.raises(UnsupportedError):
        send_signal(run, "token", "HUP")
