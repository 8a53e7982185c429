"""A command of a sandbox, from its fork to its program: streams, limits, user, rights, folder.

The order matters. Steps that need rights come first, then the rights are dropped, and only then folder and
program are looked up, as the command's user.
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

from egress.runtime.namespace.inside import system_calls

NOT_BEGUN_STATUS: Final = 125
MAX_MESSAGE_BYTES: Final = 4096
"""Of a message between the processes that hold a sandbox."""
_NOT_A_PROGRAM_STATUS: Final = 126
_NO_PROGRAM_STATUS: Final = 127
_USER_NAMESPACE_FLAG: Final = 0x10000000
_OOM_SCORE_ADJUSTMENT: Final = "500"
"""The kernel ends commands first when memory runs out, never the init process."""
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Confinement:
    """The confinement that all commands of a sandbox share."""

    users: int
    """A descriptor of their user namespace."""
    user: int
    group: int
    terminal_owner: int
    """The same user as the init process sees it."""
    freezer: int
    """A descriptor of the file that moves a process into the freezable group; -1 for none."""
    bounds: Mapping[str, int]
    """Limits of each process, without control groups: `data`, `files`, `processes`."""
    filter: bytes


def begin(
    confinement: Confinement, request: Mapping[str, object], streams: Sequence[int], reporter: socket.socket
) -> NoReturn:
    """Become the command. `streams` are three, or one for a terminal. A failure is reported, and exits."""
    try:
        os.setsid()
        _take_streams(streams)
        _enter_confinement(confinement)
        _reset_signals()
        _change_folder(str(request["folder"]), reporter)
        system_calls.filter_calls(confinement.filter)
    except OSError as error:
        _tell(reporter, "room" if error.errno in (errno.EAGAIN, errno.ENOMEM) else "rights")
        os._exit(NOT_BEGUN_STATUS)
    _run(_words(request["argv"]), _variables(request["env"]), reporter)


def _take_streams(streams: Sequence[int]) -> None:
    if len(streams) == 1:
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
        streams = (streams[0],) * 3
    for number, stream in enumerate(streams):
        os.dup2(stream, number, inheritable=True)
    # Every other descriptor belongs to processes outside, and must not reach the program.
    system_calls.close_on_exec(3)


def _enter_confinement(confinement: Confinement) -> None:
    system_calls.be_readable(by_others=True)
    system_calls.write("/proc/self/oom_score_adj", _OOM_SCORE_ADJUSTMENT)
    # Until exec this process still holds the init process's descriptors and memory, and other commands run as
    # the same user: they must not inspect it.
    system_calls.be_readable(by_others=False)
    if confinement.freezer >= 0:
        os.write(confinement.freezer, b"0")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "files" in confinement.bounds:
        _limit_files(confinement.bounds["files"])
    if "data" in confinement.bounds:
        resource.setrlimit(resource.RLIMIT_DATA, (confinement.bounds["data"],) * 2)
    if "processes" in confinement.bounds:
        resource.setrlimit(resource.RLIMIT_NPROC, (confinement.bounds["processes"],) * 2)
    # Groups and the bounding set are dropped before the user changes: afterwards the rights for it are gone.
    os.setns(confinement.users, _USER_NAMESPACE_FLAG)
    system_calls.drop_groups()
    system_calls.forget_capabilities()
    os.setresgid(confinement.group, confinement.group, confinement.group)
    os.setresuid(confinement.user, confinement.user, confinement.user)
    system_calls.drop_capabilities()
    os.umask(0o022)


def _limit_files(limit: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def _reset_signals() -> None:
    # Ignored signals are inherited across exec, for example from a caller in the background.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _change_folder(folder: str, reporter: socket.socket) -> None:
    try:
        os.chdir(os.fsencode(folder))
    except OSError:
        _tell(reporter, "folder")
        os._exit(NOT_BEGUN_STATUS)


def _run(words: Sequence[bytes], variables: Mapping[bytes, bytes], reporter: socket.socket) -> NoReturn:
    status = _NO_PROGRAM_STATUS
    # As a shell searches PATH: go on after a missing file, and remember a file that cannot be run.
    for path in _candidates(words[0], variables):
        try:
            os.execve(path, list(words), dict(variables))  # noqa: S606 - that is the point
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                _tell(reporter, "room")
                os._exit(NOT_BEGUN_STATUS)
            if error.errno == errno.ENOEXEC:
                with suppress(OSError):
                    os.execve(b"/bin/sh", [b"sh", path, *words[1:]], dict(variables))  # noqa: S606
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                status = _NOT_A_PROGRAM_STATUS
    reason = b"command not found: " if status == _NO_PROGRAM_STATUS else b"command cannot be run: "
    with suppress(OSError):
        os.write(2, reason + words[0] + b"\n")
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


def _tell(reporter: socket.socket, what: str) -> None:
    with suppress(OSError):
        reporter.send(json.dumps({"refused": what}).encode())
