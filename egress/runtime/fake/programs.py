"""The few plain programs that every sandbox in memory has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from egress.runtime.fake.process import Call, Program

_NOT_FOUND: Final = 127


def missing(call: Call) -> int:
    """What a shell says of a program that is not there."""
    call.complain(f"{call.argv[0]}: not found\n".encode())
    return _NOT_FOUND


def _echo(call: Call) -> None:
    call.write(" ".join(call.argv[1:]).encode() + b"\n")


def _cat(call: Call) -> int:
    for name in call.argv[1:]:
        try:
            call.write(call.files.read(call.path(name)))
        except FileNotFoundError:
            call.complain(f"cat: {name}: No such file or directory\n".encode())
            return 1
    if not call.argv[1:]:
        call.write(call.read())
    return 0


def _env(call: Call) -> None:
    call.write("".join(f"{name}={value}\n" for name, value in call.env.items()).encode())


def _sleep(call: Call) -> None:
    if call.argv[1:] == ("infinity",):
        call.run_on()
    call.sleep(float(call.argv[1]))


def _mkdir(call: Call) -> None:
    for name in call.argv[1:]:
        if name != "-p":
            call.files.make_folder(call.path(name))


PLAIN: Final[Mapping[str, Program]] = {
    "true": lambda _: 0,
    "false": lambda _: 1,
    "echo": _echo,
    "cat": _cat,
    "env": _env,
    "mkdir": _mkdir,
    "pwd": lambda call: call.write(call.cwd.encode() + b"\n"),
    "sleep": _sleep,
}
