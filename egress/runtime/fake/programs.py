"""The few programs that every sandbox in memory has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from egress.runtime.fake.process import Program, ProgramCall

_NOT_FOUND_STATUS: Final = 127


def program_not_found(call: ProgramCall) -> int:
    """Fail like a shell that does not find the program."""
    call.complain(f"command not found: {call.argv[0]}\n".encode())
    return _NOT_FOUND_STATUS


def _echo(call: ProgramCall) -> None:
    call.write(" ".join(call.argv[1:]).encode() + b"\n")


def _cat(call: ProgramCall) -> int:
    for name in call.argv[1:]:
        try:
            call.write(call.files.read(call.path(name)))
        except FileNotFoundError:
            call.complain(f"cat: {name}: No such file or directory\n".encode())
            return 1
    if not call.argv[1:]:
        call.write(call.read())
    return 0


def _env(call: ProgramCall) -> None:
    call.write("".join(f"{name}={value}\n" for name, value in call.env.items()).encode())


def _sleep(call: ProgramCall) -> None:
    if call.argv[1:] == ("infinity",):
        call.run_on()
    call.sleep(float(call.argv[1]))


def _mkdir(call: ProgramCall) -> None:
    for name in call.argv[1:]:
        if name != "-p":
            call.files.make_folder(call.path(name))


PLAIN_PROGRAMS: Final[Mapping[str, Program]] = {
    "true": lambda _: 0,
    "false": lambda _: 1,
    "echo": _echo,
    "cat": _cat,
    "env": _env,
    "mkdir": _mkdir,
    "pwd": lambda call: call.write(call.cwd.encode() + b"\n"),
    "sleep": _sleep,
}
