"""The scripts of commands in a pod that a template of somebody else made.

They are written by a command into a folder of their own. A process of the sandbox can change them: what it
gains is a status of its own commands, which it could forge anyway.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from egress.cluster.pod_exec import open_exec
from egress.runtime.errors import UnsupportedError
from egress.runtime.kubernetes.api_errors import translated_errors
from egress.runtime.kubernetes.pod_command import PodCommand, PodTarget
from egress.runtime.kubernetes.pod_manifest import SCRIPTS
from egress.runtime.supervised_process import drain

_UNPACK_SCRIPT: Final = Path(__file__).with_name("unpack.sh").read_text(encoding="ascii")


def write_scripts(target: PodTarget, seconds: float) -> None:
    """Write them into the folder that the run names. Raises `UnsupportedError`."""
    run = target.run
    words = ["/bin/sh", "-c", _UNPACK_SCRIPT, "sh", run.scripts, target.folder]
    with translated_errors():
        stream = open_exec(target.api, run.pod, run.container_name, words, has_input=True, has_terminal=False)
    command = PodCommand(stream, run, "", has_terminal=False)
    command.write(packed_scripts())
    command.close_input()
    if not drain(command, seconds) or command.status() != 0:
        raise UnsupportedError(
            f"the pod of the sandbox {target.name} takes no commands",
            "its image needs a POSIX shell and mkdir, and a place in /tmp that its user may write",
        )


def packed_scripts() -> bytes:
    """Return the scripts as `unpack.sh` reads them."""
    return "".join(f"{name}\n{text.count(chr(10))}\n{text}" for name, text in SCRIPTS.items()).encode("ascii")
