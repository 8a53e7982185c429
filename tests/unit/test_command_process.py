"""Real programs: their end, their children, their output, and the limits on each."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from egress.command_process import (
    MAX_OUTPUT_BYTES,
    AbortReason,
    CommandAborted,
    CommandEnd,
    CommandOutput,
    CommandProcess,
)
from tests.unit.secrets.secret_samples import SYSTEM_PATH, TOKEN

ROOT = Path(__file__).parents[2]
LATE = CommandAborted(AbortReason.LATE)
STOPPED = CommandAborted(AbortReason.STOPPED)
TOO_LONG = CommandAborted(AbortReason.TOO_LONG)


def run(
    text: str, *, timeout: float = 60.0, process: CommandProcess | None = None
) -> CommandEnd | CommandAborted:
    argv = ["sh", "-c", text]
    return (process or CommandProcess()).run("/bin/sh", argv, {"PATH": SYSTEM_PATH}, "/", timeout)


def value(ended: CommandEnd | CommandAborted) -> bytes:
    assert isinstance(ended, CommandEnd)
    return ended.output.reveal()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and waits for its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_takes_what_a_program_writes() -> None:
    ended = run(f"printf '%s\\n' {TOKEN.decode()}")
    assert isinstance(ended, CommandEnd)
    assert (ended.status, ended.stderr) == (0, 0)
    assert value(ended) == TOKEN + b"\n"


def test_tells_the_status_the_signal_and_the_length_of_the_complaint() -> None:
    ended = run("echo secret >&2; exit 3")
    assert isinstance(ended, CommandEnd)
    assert (ended.status, ended.stderr) == (3, 7)
    killed = run("kill -TERM $$")
    assert isinstance(killed, CommandEnd)
    assert killed.status == -signal.SIGTERM


def test_has_no_input_no_terminal_and_a_group_of_its_own() -> None:
    own = value(run("readlink /proc/$$/fd/0 | tr -d '\\n'; cut -d' ' -f5 /proc/$$/stat"))
    assert own.startswith(b"/dev/null")
    assert int(own.removeprefix(b"/dev/null")) != os.getpgrp()


def test_is_given_the_named_environment_alone() -> None:
    names = value(run("env | cut -d= -f1 | sort | tr '\\n' ' '")).split()
    assert set(names) <= {b"PATH", b"PWD", b"OLDPWD", b"SHLVL", b"_"}


def test_a_program_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ended = run(f"sleep 1000 & echo $! >> {pids}; echo $$ >> {pids}; wait", timeout=0.5)
    assert ended == LATE
    for pid in pids.read_text().split():
        while is_alive(int(pid)):
            time.sleep(0.01)


def test_a_child_that_keeps_the_pipe_open_holds_up_nothing(tmp_path: Path) -> None:
    """It goes down with the program: a secret source leaves nothing behind."""
    pids = tmp_path / "pids"
    assert value(run(f"sleep 1000 & echo $! > {pids}; echo token-123")) == b"token-123\n"
    while is_alive(int(pids.read_text())):
        time.sleep(0.01)


def test_output_has_a_bound() -> None:
    assert len(value(run(f"head -c {MAX_OUTPUT_BYTES} /dev/zero | tr '\\0' x"))) == MAX_OUTPUT_BYTES
    assert run(f"head -c {MAX_OUTPUT_BYTES + 1} /dev/zero | tr '\\0' x") == TOO_LONG
    assert run("cat /dev/zero") == TOO_LONG


def test_a_program_that_complains_for_ever_meets_its_limit() -> None:
    assert run("cat /dev/zero >&2", timeout=0.5) == LATE


def test_a_long_complaint_does_not_block_the_output() -> None:
    ended = run("head -c 300000 /dev/zero >&2; echo token-123")
    assert isinstance(ended, CommandEnd)
    assert value(ended) == b"token-123\n"


def test_stop_kills_a_running_program_and_none_is_started_later(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    process = CommandProcess()
    ended: list[CommandEnd | CommandAborted] = []
    thread = threading.Thread(
        target=lambda: ended.append(run(f"echo > {tmp_path}/begun; sleep 1000", process=process))
    )
    thread.start()
    (tmp_path / "begun").read_bytes()
    process.stop()
    thread.join()
    assert ended == [STOPPED]
    assert run("echo token-123", process=process) == STOPPED


def test_leaves_no_descriptor_and_no_child_behind() -> None:
    run("true")
    before = descriptors()
    for text, timeout in (("echo x", 60.0), ("exit 1", 60.0), ("sleep 1000", 0.1), ("cat /dev/zero", 60.0)):
        run(text, timeout=timeout)
    assert descriptors() == before


def test_a_status_that_nobody_can_know_is_no_success() -> None:
    """Where SIGCHLD is ignored the kernel forgets how a child ended, and `Popen` says 0."""
    code = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from egress.command_process import CommandProcess\n"
        "for pause in ('', 'sleep 0.1;'):\n"
        "    argv = ['sh', '-c', f'{pause} echo token-123; exit 3']\n"
        "    print(CommandProcess().run('/bin/sh', argv, {'PATH': '/usr/bin:/bin'}, '/', 60.0))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.count("AbortReason.UNSEEN") == 2, done.stderr
    assert "token" not in done.stdout


def test_what_is_printed_of_a_run_holds_no_value() -> None:
    ended = run(f"echo {TOKEN.decode()}")
    output = CommandOutput(TOKEN)
    for each in (ended, output, [output]):
        assert "tok_" not in f"{each!r} {each!s} {each}"
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="must not be"):
            act(output)


def test_each_reason_is_told_without_what_was_written() -> None:
    told = {reason: CommandAborted(reason).told(0.5) for reason in AbortReason}
    assert told == {
        AbortReason.STOPPED: "was stopped",
        AbortReason.LATE: "did not end within 0.5 s",
        AbortReason.TOO_LONG: "wrote more than 64 KiB",
        AbortReason.UNSEEN: "ended with an unknown status, because Egress was started with SIGCHLD ignored",
    }


def test_it_runs_in_the_folder_that_is_named_or_in_that_of_this_process(tmp_path: Path) -> None:
    for folder, found in ((str(tmp_path), tmp_path), (None, Path.cwd())):
        ended = CommandProcess().run("/bin/pwd", ["pwd", "-P"], {}, folder, 60.0)
        assert Path(os.fsdecode(value(ended)).strip()) == found.resolve()
