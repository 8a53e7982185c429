"""Remove `env:` secrets from the environment, so that `/proc/PID/environ` does not hold them.

Theory of operation. The kernel shows the block of the program start as `/proc/PID/environ`; removing a
variable later does not change it. So the values are written into a sealed memory file, and the process
executes itself again: same process number, same command line, without the named variables.
`EGRESS_HANDED_OVER` carries the number of the memory file's descriptor, which reveals no secret. The second
start reads the file once and closes it.

A second start that finds the variables again stops instead of looping. In a container no variable is
captured: everybody who reaches the engine can inspect its environment, so a value there is already lost.

The environment is an argument. Must not leave the descriptor open, and must not show a value.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from egress.errors import UnreadableError, UsageError, reason_of
from egress.rules.decide.policy import SecretSpec
from egress.secrets.source_value import SourceValue

HANDED_OVER_VARIABLE = "EGRESS_HANDED_OVER"

_MEMORY_FILE_NAME = "egress-handed-over"
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_MFD_NOEXEC_SEAL = 0x8
_FIRST_FREE_DESCRIPTOR = 3
_DESCRIPTOR_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class CapturedEnvironment:
    """The environment of the process start, with the secrets separated."""

    values: Mapping[str, SourceValue]
    """By variable; only variables that were named and set."""
    environ: Mapping[str, str] = field(repr=False)
    """All other variables. Use this environment from here on: it holds no `env:` secret."""


def secret_variables(specs: Iterable[SecretSpec]) -> frozenset[str]:
    """Return the variables named by `env:` secrets."""
    return frozenset(spec.reference[0] for spec in specs if spec.scheme == "env" and spec.reference)


def capture_environment(
    environ: Mapping[str, str], names: Iterable[str], argv: Sequence[str], *, container: bool = False
) -> CapturedEnvironment:
    """Return the values of the named variables; on the first start, execute `argv` again instead.

    `argv` is `sys.orig_argv`. Call once, early, before threads or children exist. Raises UsageError in a
    container whose environment holds a named variable, and if a named variable is still there on the second
    start.
    """
    names = frozenset(names)
    if HANDED_OVER_VARIABLE in names:
        raise UsageError(f"{HANDED_OVER_VARIABLE} is reserved for Egress", "give the secret another variable")
    present = sorted(name for name in names if name in environ)
    rest = {
        name: text for name, text in environ.items() if name not in names and name != HANDED_OVER_VARIABLE
    }
    # Refuse before anything is moved: a container's environment stays visible whatever is done here.
    if container and present:
        raise UsageError(
            f"the environment of this container holds secrets: {', '.join(present)}",
            "remove them, mount them as files, and name the files with `file:`",
        )
    if HANDED_OVER_VARIABLE in environ:
        values = read_handed_over(environ[HANDED_OVER_VARIABLE])
        if present:
            raise UsageError(
                f"still in the environment after a new start: {', '.join(present)}",
                "start again; if it persists, find out which Python start-up file sets them",
            )
        return CapturedEnvironment(values, rest)
    if present:
        _start_again({name: environ[name] for name in present}, rest, argv)
    return CapturedEnvironment({}, rest)


def read_handed_over(number: str) -> Mapping[str, SourceValue]:
    """Read the handed-over values once, and close the file. Raises UsageError if the file is not ours."""
    descriptor = int(number) if _DESCRIPTOR_NUMBER.fullmatch(number) else -1
    if descriptor < _FIRST_FREE_DESCRIPTOR or not _is_ours(descriptor):
        raise UsageError(
            f"{HANDED_OVER_VARIABLE} is set, but does not name a file of Egress",
            "unset it: only Egress itself sets it",
        )
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        file.seek(0)
        return _unpacked(file.read())


def _start_again(values: Mapping[str, str], environ: Mapping[str, str], argv: Sequence[str]) -> NoReturn:
    if not sys.executable or not argv:
        raise UsageError(
            "this process does not know its command line, so it cannot remove secrets from its environment",
            "use `file:` or `command:` instead of `env:`",
        )
    descriptor = _sealed(_packed(values))
    try:
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - positional only
        # Buffered output would be lost, or written twice, by the new program.
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, list(argv), {**environ, HANDED_OVER_VARIABLE: str(descriptor)})  # noqa: S606 - no shell wanted
    except OSError as error:
        reason = reason_of(error)
        raise UnreadableError(
            f"Egress cannot start itself again without its secrets: {reason}", "use `file:` instead of `env:`"
        ) from None
    finally:
        os.close(descriptor)


def _packed(values: Mapping[str, str]) -> bytes:
    # NUL cannot occur in a variable, so it separates them without an escape.
    return b"\0".join(os.fsencode(f"{name}={text}") for name, text in values.items())


def _unpacked(data: bytes) -> Mapping[str, SourceValue]:
    pairs = (item.partition(b"=") for item in data.split(b"\0"))
    return {os.fsdecode(name): SourceValue(raw) for name, _, raw in pairs}


def _sealed(data: bytes) -> int:
    """Return the descriptor of a memory file that cannot be changed any more."""
    descriptor = _memory_file()
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        # Sealed before it is handed over: the seals tell its reader that the file is from here.
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        # Above the standard streams, which a later start may replace.
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_DESCRIPTOR)
    finally:
        os.close(descriptor)


def _memory_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        # Some systems refuse an executable memory file; kernels before 6.3 do not know the flag.
        return os.memfd_create(_MEMORY_FILE_NAME, flags | _MFD_NOEXEC_SEAL)
    except OSError:
        return os.memfd_create(_MEMORY_FILE_NAME, flags)


def _is_ours(descriptor: int) -> bool:
    """Report whether the descriptor is a memory file from `_sealed`: a stale number may mean anything."""
    try:
        name = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - no file stands there
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        return False
    return name.startswith(f"/memfd:{_MEMORY_FILE_NAME}") and seals & _SEALS == _SEALS
