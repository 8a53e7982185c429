"""The first process: its loop, outside of any namespace, with commands that are plain programs."""

from __future__ import annotations

from tests.unit.runtime.namespace.inside_code import run_inside

_LOOP = """
import json, threading

def begin(cell, request, streams, teller):
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.execv("/bin/sh", ["sh", "-c", request["script"]])

command.begin = begin
control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
life, lives = os.pipe()
number = os.fork()
if not number:
    control.close()
    os.close(lives)
    cell = command.Confinement(-1, 0, 0, 0, -1, {}, b"")
    init.InitProcess(cell, theirs, life).run()
    print("ended")
    sys.stdout.flush()
    os._exit(0)
theirs.close()
assert control.recv(9) == b"ready"

def spawn(script, timeout=None, grace=1):
    line, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = os.memfd_create("x")
    os.write(request, json.dumps({"script": script, "timeout": timeout, "grace": grace}).encode())
    null = os.open("/dev/null", os.O_RDWR)
    socket.send_fds(control, [b"spawn"], [other.fileno(), request, null, null, null])
    other.close()
    return line

"""


def test_the_end_of_a_command_is_told() -> None:
    code = _LOOP + "for end in ('exit 7', 'kill -9 $$', 'true'):\n    print(spawn(end).recv(99).decode())\n"
    ends = [f'{{"exit": {code}, "timed_out": false}}' for code in (7, 137, 0)]
    assert [line for line in run_inside(code).splitlines() if line != "ended"] == ends


def test_time_that_is_over_is_told_as_that() -> None:
    code = _LOOP + "print(spawn('trap : TERM; sleep 60; exit 5', 0.1, 60).recv(99).decode())\n"
    assert run_inside(code).startswith('{"exit": 124, "timed_out": true}\n')


def test_it_ends_with_either_line() -> None:
    for hang_up in ("control.close()", "os.close(lives)"):
        code = f"{_LOOP}line = spawn('sleep 2')\n{hang_up}\nos.waitpid(number, 0)\nprint(line.recv(9))\n"
        assert run_inside(code).splitlines() == ["ended", "b''"]


def test_a_command_that_nobody_asks_about_goes_on() -> None:
    code = _LOOP + "spawn('sleep 2').close()\nprint(spawn('exit 3').recv(99).decode())\n"
    assert '"exit": 3' in run_inside(code)
