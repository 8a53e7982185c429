"""A command of a sandbox, from its fork to its program: streams, bounds, user, rights, folder.

The order is the point. What needs rights comes first, then they are given up, and what a command decides
(folder, program) is looked at as its user.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import socket
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn

from egress.runtime.namespace.inside import kernel

NOT_BEGUN_STATUS: Final = 125
MAX_MESSAGE_BYTES: Final = 4096
"""Of a message between the processes that hold a sandbox."""
_NOT_A_PROGRAM_STATUS: Final = 126
_NO_PROGRAM_STATUS: Final = 127
_USER_NAMESPACE_FLAG: Final = 0x10000000
_OOM_SCORE_ADJUSTMENT: Final = "500"
"""What is ended first where there is no memory: never the first process."""
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Confinement:
    """What all commands of a sandbox share."""

    users: int
    """The descriptor of their user namespace."""
    user: int
    group: int
    terminal_owner: int
    """The same user as the first process knows it."""
    freezer: int
    """The descriptor of the file that takes a process into the group that can be frozen; -1 for none."""
    bounds: Mapping[str, int]
    """Of one process each, where no control group bounds all: `data`, `files`, `processes`."""
    filter: bytes


def begin(
    cell: Confinement, request: Mapping[str, object], streams: Sequence[int], teller: socket.socket
) -> NoReturn:
    """Become the command. `streams` are three, or the one of a terminal. What fails is told, and ends it."""
    try:
        os.setsid()
        _take_streams(streams)
        _enter_confinement(cell)
        _reset_signals()
        _change_folder(str(request["folder"]), teller)
        kernel.filter_calls(cell.filter)
    except OSError as error:
        _tell(teller, "room" if error.errno in (errno.EAGAIN, errno.ENOMEM) else "rights")
        os._exit(NOT_BEGUN_STATUS)
    _run(_words(request["argv"]), _variables(request["env"]), teller)


def _take_streams(streams: Sequence[int]) -> None:
    if len(streams) == 1:
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
        streams = (streams[0],) * 3
    for number, stream in enumerate(streams):
        os.dup2(stream, number, inheritable=True)
    # Whatever else is open belongs to those outside.
    kernel.close_on_exec(3)


def _enter_confinement(cell: Confinement) -> None:
    kernel.be_readable(by_others=True)
    kernel.write("/proc/self/oom_score_adj", _OOM_SCORE_ADJUSTMENT)
    # Until the program begins what is open here is that of the first process, and other commands are the same
    # user.
    kernel.be_readable(by_others=False)
    if cell.freezer >= 0:
        os.write(cell.freezer, b"0")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "files" in cell.bounds:
        _bound_files(cell.bounds["files"])
    if "data" in cell.bounds:
        resource.setrlimit(resource.RLIMIT_DATA, (cell.bounds["data"],) * 2)
    if "processes" in cell.bounds:
        resource.setrlimit(resource.RLIMIT_NPROC, (cell.bounds["processes"],) * 2)
    os.setns(cell.users, _USER_NAMESPACE_FLAG)
    kernel.drop_groups()
    kernel.forget_capabilities()
    os.setresgid(cell.group, cell.group, cell.group)
    os.setresuid(cell.user, cell.user, cell.user)
    kernel.drop_capabilities()
    os.umask(0o022)


def _bound_files(most: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _reset_signals() -> None:
    # Also what whoever made the sandbox ignores: one that was begun in the background, for instance.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _change_folder(folder: str, teller: socket.socket) -> None:
    try:
        os.chdir(os.fsencode(folder))
    except OSError:
        _tell(teller, "folder")
        os._exit(NOT_BEGUN_STATUS)


def _run(words: Sequence[bytes], variables: Mapping[bytes, bytes], teller: socket.socket) -> NoReturn:
    status = _NO_PROGRAM_STATUS
    for path in _candidates(words[0], variables):
        try:
            os.execve(path, list(words), dict(variables))  # noqa: S606 - that is the point
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                _tell(teller, "room")
                os._exit(NOT_BEGUN_STATUS)
            if error.errno == errno.ENOEXEC:
                with suppress(OSError):
                    os.execve(b"/bin/sh", [b"sh", path, *words[1:]], dict(variables))  # noqa: S606
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                status = _NOT_A_PROGRAM_STATUS
    reason = b"not found" if status == _NO_PROGRAM_STATUS else b"cannot be run"
    with suppress(OSError):
        os.write(2, words[0] + b": " + reason + b"\n")
    os._exit(status)


def _candidates(program: bytes, variables: Mapping[bytes, bytes]) -> list[bytes]:
    if b"/" in program:
        return [program]
    folders = variables.get(b"PATH", _DEFAULT_PATH.encode()).split(b":")
    return [(folder or b".") + b"/" + program for folder in folders]


def _words(found: object) -> list[bytes]:
    return [os.fsencode(str(each)) for each in found] if isinstance(found, list) else []


def _variables(found: object) -> dict[bytes, bytes]:
    pairs = found.items() if isinstance(found, dict) else ()
    return {os.fsencode(str(name)): os.fsencode(str(value)) for name, value in pairs}


def _tell(teller: socket.socket, what: str) -> None:
    with suppress(OSError):
        teller.send(json.dumps({"refused": what}).encode())
