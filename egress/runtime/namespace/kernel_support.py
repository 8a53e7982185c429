"""Checks whether this machine allows the namespaces of a sandbox, and names the cure if not."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from egress.errors import reason_of
from egress.runtime.errors import EngineError, UnsupportedError
from egress.runtime.namespace.inside.syscall_filter import MACHINE_FILTERS

SETTING_FILES: Final = {
    "user.max_user_namespaces": Path("/proc/sys/user/max_user_namespaces"),
    "user.max_net_namespaces": Path("/proc/sys/user/max_net_namespaces"),
    "kernel.unprivileged_userns_clone": Path("/proc/sys/kernel/unprivileged_userns_clone"),
    "kernel.apparmor_restrict_unprivileged_userns": Path(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
    ),
}
MIN_KERNEL_VERSION: Final = (5, 14)
"""The first kernel that counts process limits by user namespace, and sets mount attributes recursively."""
_IMPORT_PREFIX: Final = "from egress.runtime.namespace.inside import "
_PROBE_CODE: Final = (
    _IMPORT_PREFIX + "network, system_calls, user_namespaces\n"
    "try:\n"
    "    user_namespaces.enter(0x60020000, ())\n"
    "    system_calls.keep_mounts_private()\n"
    "    network.prepare('198.18.0.2')\n"
    "except OSError as error:\n"
    "    print(error.errno)\n"
)
_PROBE_TIMEOUT: Final = 30.0
_MAX_CAUSE_CHARS: Final = 300


def python_command(code: str) -> list[str]:
    """The command of a process in a sandbox's namespaces: a bare interpreter with `inside` on its path."""
    root = str(Path(__file__).resolve().parents[3])
    start = f"import sys; sys.path.append({root!r})\n"
    return [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", start + code]


def check() -> None:
    """Raise `UnsupportedError` if this machine cannot run namespace sandboxes.

    Raises `EngineError` for a probe that cannot tell, such as one whose modules cannot be imported.
    """
    # Tried in a child process: a namespace once entered cannot be left.
    refuse_old(os.uname().sysname, os.uname().release, os.uname().machine)
    try:
        done = subprocess.run(
            python_command(_PROBE_CODE),
            env={},
            cwd="/",
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PROBE_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        cause = reason_of(error) if isinstance(error, OSError) else f"no answer within {_PROBE_TIMEOUT:g}s"
        raise probe_error(cause) from None
    said = done.stdout.strip()
    if done.returncode > 0:
        raise probe_error(last_line(done.stderr) or f"it exited with status {done.returncode}")
    # A filter of system calls may kill a process that asks for namespaces.
    if done.returncode or said:
        raise refusal_error(int(said) if said.isdigit() else 0, kernel_settings())


def probe_error(cause: str) -> EngineError:
    """The error for a probe that says nothing about this machine. Pure."""
    return EngineError(
        f"the probe of namespaces failed: {cause}",
        f"check the installation of {sys.executable}, or reinstall egress",
    )


def last_line(output: bytes) -> str:
    """The last line of a traceback, which names its cause. Pure."""
    lines = output.decode("utf-8", "replace").strip().splitlines() or [""]
    return "".join(letter for letter in lines[-1] if letter.isprintable())[:_MAX_CAUSE_CHARS]


def refuse_old(system: str, release: str, machine: str) -> None:
    """Raise `UnsupportedError` for an unsupported system or kernel. Pure."""
    if system != "Linux":
        raise UnsupportedError("namespaces need Linux", "use the docker runtime")
    if machine not in MACHINE_FILTERS:
        raise UnsupportedError(
            f"there is no filter of system calls for {machine}", "use the docker runtime on this machine"
        )
    numbers = release.replace("-", ".").split(".")[:2]
    if all(each.isdigit() for each in numbers) and tuple(map(int, numbers)) < MIN_KERNEL_VERSION:
        raise UnsupportedError(
            f"the kernel {'.'.join(numbers)} is too old for namespace sandboxes",
            f"use Linux {MIN_KERNEL_VERSION[0]}.{MIN_KERNEL_VERSION[1]} or newer, or the docker runtime",
        )


def kernel_settings() -> dict[str, str]:
    """The kernel settings that limit namespaces, as far as readable."""
    found = {}
    for name, path in SETTING_FILES.items():
        try:
            found[name] = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
    return found


def refusal_error(number: int, found: Mapping[str, str]) -> UnsupportedError:
    """The error for refused namespaces, with the cure. Pure."""
    for name in ("user.max_user_namespaces", "user.max_net_namespaces"):
        if found.get(name) == "0" or (number == errno.ENOSPC and name in found):
            return _unsupported_error(
                f"{name} is {found[name]}, and all are in use", f"sysctl -w {name}=15000"
            )
    if found.get("kernel.unprivileged_userns_clone") == "0":
        name = "kernel.unprivileged_userns_clone"
        return _unsupported_error(f"{name} is 0", f"sysctl -w {name}=1")
    if found.get("kernel.apparmor_restrict_unprivileged_userns") == "1":
        name = "kernel.apparmor_restrict_unprivileged_userns"
        return _unsupported_error(
            f"{name} is 1", f"give {sys.executable} an AppArmor profile with `userns,`, or sysctl -w {name}=0"
        )
    reason = os.strerror(number).lower() if number else "no reason given"
    return UnsupportedError(
        f"this machine does not allow the namespaces of a sandbox: {reason}",
        "in a container, allow user namespaces in its seccomp profile; otherwise use the docker runtime",
    )


def _unsupported_error(reason: str, cure: str) -> UnsupportedError:
    return UnsupportedError(
        f"this machine does not allow user namespaces: {reason}",
        f"as root: {cure}; or use the docker runtime",
    )


# Gaps in the isolation of namespace sandboxes, as sentences for the operator.
KERNEL_CAUTION: Final = (
    "shares this machine's kernel and /usr (read-only); disk unlimited unless --disk is given"
)
_UNBOUNDED_CAUTIONS: Final = {
    "memory": "memory is limited per process only",
    "cpu": "CPU time is unlimited",
}


def list_cautions(bounded: frozenset[str], *, has_rights: bool, is_root: bool) -> tuple[str, ...]:
    """The gaps, the general one first. `bounded`: the resources that control groups can limit."""
    found = [KERNEL_CAUTION]
    missing = [_UNBOUNDED_CAUTIONS[kind] for kind in ("memory", "cpu") if kind not in bounded]
    if missing:
        found.append(f"control groups are not writable: {', '.join(missing)}")
    if not has_rights:
        found.append("sandboxes run as your own user, isolated by namespaces only")
        if is_root:
            found.append("egress runs as root without capabilities: run it as an ordinary user")
    return tuple(found)
