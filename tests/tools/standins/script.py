"""What every assistant of the stand-ins does: it has a file written by a tool of the agent, then says a line.

Agents name their tools, and the arguments of these, as they like: the shape is found in what they offer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

SAID: Final = "The stand-in has finished its work."
FILE: Final = "/workspace/proof.txt"
WRITTEN: Final = "written by an agent"

CODE: Final = "code"
"""The one argument of a tool that takes a program as plain text."""

_COMMAND: Final = f"printf %s '{WRITTEN}' > {FILE}"
_WRITERS: Final[Mapping[str, Mapping[str, str]]] = {
    "Write": {"file_path": FILE, "content": WRITTEN},
    "write": {"filePath": FILE, "content": WRITTEN},
    "write_file": {"file_path": FILE, "content": WRITTEN},
    "create": {"path": FILE, "file_text": WRITTEN},
    "exec_command": {"cmd": _COMMAND},
    "shell_command": {"command": _COMMAND},
    "bash": {"command": _COMMAND, "description": "write a file"},
    "exec": {CODE: f"text(await tools.exec_command({json.dumps({'cmd': _COMMAND})}))"},
}
"""Tools of agents that can write the file, best first, and their arguments."""


@dataclass(frozen=True, slots=True)
class Step:
    """A tool that is to be used."""

    tool: str
    arguments: Mapping[str, str]


def next_step(tools: Iterable[Mapping[str, Any]], *, is_answered: bool) -> Step | None:
    """The tool to use now; None where there is nothing left to do, or nothing to do it with."""
    if is_answered:
        return None
    names = {str(each.get("name", "")) for each in tools}
    return next((Step(name, given) for name, given in _WRITERS.items() if name in names), None)
