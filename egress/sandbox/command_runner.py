"""Runs commands for the parts of one sandbox's API: a runtime, a name, and cancellation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from egress import environment
from egress.runtime.protocol import NO_OUTPUT, Output, Runtime, RuntimeProcess
from egress.runtime.spec import Command, ExecResult, Values
from egress.sandbox.cancellation import cancelled_by, is_cancellable


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs commands in one sandbox."""

    runtime: Runtime
    name: str
    caller: Callable[[], Values] = environment.read_environment
    """Returns the caller's environment, of which only requested variables are used."""

    def begin(self, command: Command, output: Output = NO_OUTPUT) -> RuntimeProcess:
        """Start a command in the background."""
        return self.runtime.spawn(self.name, command, output)

    def run(self, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        """Run a command to its end; a cancelled call ends the command."""
        if not is_cancellable():
            return self.runtime.exec(self.name, command, output)
        process = self.begin(command, output)
        if command.input is None:
            process.close_input()
        with cancelled_by(process.kill):
            return process.wait()
