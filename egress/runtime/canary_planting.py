"""Plants canaries in a sandbox: useless values, in variables and in files.

Canaries come with the admission, and provisioners have no part in them: a sandbox without its canaries would
look like one that sends none. So each runtime adds them here, and a canary that cannot be planted is an
error.

Files are written inside, as the user of the sandbox, by its own shell, and before any other process runs: the
kernel limits the writes to that user's, and links lead no further. Contents go through standard input, never
through an argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from egress.runtime.errors import SandboxError, SandboxStateError, SpecError, UnsupportedError
from egress.runtime.protocol import Provisioner, Provisions
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission, PlantedCanary
from egress.runtime.spec import Command, ExecResult, Spec

PLANT_SCRIPT: Final = Path(__file__).with_name("plant.sh").read_text(encoding="ascii")
_SCRIPT_TIMEOUT: Final = 60.0
_MAX_ANSWER_BYTES: Final = 1024
_WRITABLE_HINT: Final = "plant it where its user may write: in /tmp, in its home, or in its working folder"
# Exit statuses of plant.sh; its head lists them.
TAKEN_STATUS: Final = 43
_FAILURE_REASONS: Final = {
    41: ("it has no home", "use an absolute path for the canary"),
    42: (
        "a folder of this machine is mounted there",
        "plant it elsewhere: mounts are never written",
    ),
    TAKEN_STATUS: ("a file is there already", "choose an unused path for the canary"),
    44: ("its user may not create a folder there", _WRITABLE_HINT),
    45: ("its user may not write there, or the disk is full", _WRITABLE_HINT),
}
_NO_MKDIR_STATUS: Final = 46
_NO_SHELL_STATUSES: Final = frozenset({126, 127})

Run = Callable[[Command], ExecResult]
"""Runs a command in the sandbox to its end."""


def provision_with_canaries(
    provision: Provisioner, admission: Admission, proxy: ProxyAddress, spec: Spec
) -> Provisions:
    """The provisions of a sandbox, with its canaries. Raises `SpecError` for a canary without a place."""
    provisions = provision(admission, proxy)
    planted: dict[str, str] = {}
    # A canary never replaces a variable: the user's own value, or the kit's, would silently be lost.
    for canary in admission.canaries:
        if not canary.env:
            continue
        if canary.env in spec.env:
            raise SpecError(
                f"env sets {canary.env}, the variable of the canary {canary.name}",
                "omit the variable, or plant the canary in another one",
            )
        if canary.env in provisions.variables:
            raise SpecError(
                f"the canary {canary.name} cannot use {canary.env}: every sandbox sets it",
                "plant it in another variable",
            )
        planted[canary.env] = canary.value
    files = tuple(canary for canary in admission.canaries if canary.file)
    return replace(provisions, variables={**provisions.variables, **planted}, planted=files)


def plant(run: Run, spec: Spec, provisions: Provisions, *, again: bool = False) -> None:
    """Write the planted files. `again`: files that exist by now stay unchanged.

    Raises `SandboxStateError` with the name of a canary that cannot be planted.
    """
    if not provisions.planted:
        return
    targets = [os.path.normpath(mount.target) for mount in spec.mounts]
    words = ("/bin/sh", "-c", PLANT_SCRIPT, "sh", "again" if again else "first", *targets)
    written = _script_input(provisions.planted)
    # The shell belongs to the image, which may print anything.
    result = run(
        Command(argv=words, cwd="/", input=written, timeout=_SCRIPT_TIMEOUT, most_output=_MAX_ANSWER_BYTES)
    )
    if result.exit_code:
        raise _script_error(spec.name, provisions.planted, result)


def _script_input(canaries: Sequence[PlantedCanary]) -> bytes:
    """The input of the script: for each file its path, its number of lines, and the lines."""
    found = []
    for canary in canaries:
        lines = canary.content.removesuffix("\n").split("\n")
        found += [canary.file, str(len(lines)), *lines]
    return "".join(f"{line}\n" for line in found).encode()


def _script_error(name: str, canaries: Sequence[PlantedCanary], result: ExecResult) -> SandboxError:
    if result.exit_code in _NO_SHELL_STATUSES:
        return UnsupportedError(
            f"the image of the sandbox {name} has no /bin/sh, which plants canaries in files",
            "use an image with a shell, or plant canaries in variables only",
        )
    return planting_error(name, _reported_canary(canaries, result.stdout_bytes), result.exit_code)


def planting_error(name: str, canary: PlantedCanary, status: int) -> SandboxError:
    """The error for a canary that could not be planted, by the exit status of the script."""
    if status == _NO_MKDIR_STATUS:
        return UnsupportedError(
            f"the image of the sandbox {name} has no mkdir, so the canary {canary.name} cannot be planted",
            "use an image with mkdir, or plant it in an existing folder",
        )
    why, cure = _FAILURE_REASONS.get(status, ("its shell failed", "check that commands run in the sandbox"))
    return SandboxStateError(
        f"the canary {canary.name} cannot be planted at {canary.file} in the sandbox {name}: {why}", cure
    )


def _reported_canary(canaries: Sequence[PlantedCanary], said: bytes) -> PlantedCanary:
    """The canary that the script reported. The sandbox wrote that number, so it is only a hint."""
    text = said.strip()
    number = int(text) if len(text) <= 4 and text.isdigit() else 1
    return canaries[min(max(number, 1), len(canaries)) - 1]
