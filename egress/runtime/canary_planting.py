"""Canaries in a sandbox: values that nothing has a use for, in variables and in files of its own.

What is planted comes with the admission, and no dresser has a part in it: a sandbox without its canaries
would look like one that sends none. So each runtime puts its outfit on here, and what cannot be planted is an
error.

A file is written inside, as the user of the sandbox and by its own shell, before anything else runs there:
the kernel says what he may, and links lead nowhere but where he could go himself. What is written comes by
standard input, and stands in no argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from egress.runtime.errors import SandboxError, SandboxStateError, SpecError, UnsupportedError
from egress.runtime.protocol import Provisioner, Provisions, ProxyEndpoint
from egress.runtime.proxy_client import Admission, PlantedCanary
from egress.runtime.spec import Command, ExecResult, Spec

PLANT_SCRIPT: Final = Path(__file__).with_name("plant.sh").read_text(encoding="ascii")
_SCRIPT_TIMEOUT: Final = 60.0
_MAX_ANSWER_BYTES: Final = 1024
_WRITABLE_HINT: Final = "plant it where its user may write: in /tmp, in its home, or in its working folder"
TAKEN_STATUS: Final = 43
_FAILURE_REASONS: Final = {
    41: ("it has no home", "write a whole path for the canary"),
    42: (
        "a folder of this machine is mounted there",
        "plant it elsewhere: nothing is written there",
    ),
    TAKEN_STATUS: ("something is there already", "write a path for the canary that nothing else has"),
    44: ("its user may not make a folder there", _WRITABLE_HINT),
    45: ("its user may not write there, or there is no room", _WRITABLE_HINT),
}
_NO_MKDIR_STATUS: Final = 46
_NO_SHELL_STATUSES: Final = frozenset({126, 127})

Run = Callable[[Command], ExecResult]
"""Runs a command in the sandbox to its end."""


def provision_with_canaries(
    dress: Provisioner, admission: Admission, entrance: ProxyEndpoint, spec: Spec
) -> Provisions:
    """The outfit of a sandbox, with its canaries. Raises `SpecError` for one that has no place."""
    outfit = dress(admission, entrance)
    planted: dict[str, str] = {}
    for canary in admission.canaries:
        if not canary.env:
            continue
        if canary.env in spec.env:
            raise SpecError(
                f"env sets {canary.env}, where the rules plant the canary {canary.name}",
                "leave the variable out, or let the rules plant the canary in another one",
            )
        if canary.env in outfit.variables:
            raise SpecError(
                f"{canary.env} is set for every sandbox, so the canary {canary.name} cannot be planted there",
                "let the rules plant it in another variable",
            )
        planted[canary.env] = canary.value
    files = tuple(canary for canary in admission.canaries if canary.file)
    return replace(outfit, variables={**outfit.variables, **planted}, planted=files)


def plant(run: Run, spec: Spec, outfit: Provisions, *, again: bool = False) -> None:
    """Write the files that are planted. `again`: those that are there by now stay as they are.

    Raises `SandboxStateError` that names the canary where one cannot be.
    """
    if not outfit.planted:
        return
    targets = [os.path.normpath(mount.target) for mount in spec.mounts]
    words = ("/bin/sh", "-c", PLANT_SCRIPT, "sh", "again" if again else "first", *targets)
    written = _script_input(outfit.planted)
    # What answers is of the image, which may say anything.
    result = run(
        Command(argv=words, cwd="/", input=written, timeout=_SCRIPT_TIMEOUT, most_output=_MAX_ANSWER_BYTES)
    )
    if result.exit_code:
        raise _script_error(spec.name, outfit.planted, result)


def _script_input(canaries: Sequence[PlantedCanary]) -> bytes:
    """What the script reads: paths, counts of lines, and lines."""
    found = []
    for canary in canaries:
        lines = canary.content.removesuffix("\n").split("\n")
        found += [canary.file, str(len(lines)), *lines]
    return "".join(f"{line}\n" for line in found).encode()


def _script_error(name: str, canaries: Sequence[PlantedCanary], result: ExecResult) -> SandboxError:
    if result.exit_code in _NO_SHELL_STATUSES:
        return UnsupportedError(
            f"the image of the sandbox {name} has no /bin/sh, and canaries are planted in files by it",
            "use one that has, or plant them in variables alone",
        )
    return planting_error(name, _reported_canary(canaries, result.stdout), result.exit_code)


def planting_error(name: str, canary: PlantedCanary, status: int) -> SandboxError:
    """Why a canary is not in the sandbox of this name, by the status of the script."""
    if status == _NO_MKDIR_STATUS:
        return UnsupportedError(
            f"the image of the sandbox {name} has no mkdir, so the canary {canary.name} cannot be planted",
            "use one that has, or plant it in a folder that is there",
        )
    why, cure = _FAILURE_REASONS.get(
        status, ("its shell did not come to an end", "see whether it can begin any")
    )
    return SandboxStateError(
        f"the canary {canary.name} cannot be planted at {canary.file} in the sandbox {name}: {why}", cure
    )


def _reported_canary(canaries: Sequence[PlantedCanary], said: bytes) -> PlantedCanary:
    """Which one it was. What the sandbox says is believed as far as it can be."""
    text = said.strip()
    number = int(text) if len(text) <= 4 and text.isdigit() else 1
    return canaries[min(max(number, 1), len(canaries)) - 1]
