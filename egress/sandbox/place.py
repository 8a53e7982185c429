"""One sandbox as the parts of its handle see it: a runtime and a name, and commands that can be given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from egress import settings
from egress.runtime.protocol import SILENT, Output, Process, Runtime
from egress.runtime.spec import Command, ExecResult, Values
from egress.sandbox.scope import can_be_ended, ended_by


@dataclass(frozen=True, slots=True)
class Place:
    """Where commands are run."""

    runtime: Runtime
    name: str
    caller: Callable[[], Values] = settings.environment
    """The environment of whoever holds the handle: only what he asks for by name is taken out of it."""

    def begin(self, command: Command, output: Output = SILENT) -> Process:
        """Begin a command that goes on by itself."""
        return self.runtime.spawn(self.name, command, output)

    def run(self, command: Command, output: Output = SILENT) -> ExecResult:
        """Run a command to its end; where the call is given up the command is ended."""
        if not can_be_ended():
            return self.runtime.exec(self.name, command, output)
        process = self.begin(command, output)
        if command.input is None:
            process.close_input()
        with ended_by(process.kill):
            return process.wait()
