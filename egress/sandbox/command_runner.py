"""One sandbox as the parts of its handle see it: a runtime and a name, and commands that can be given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from egress import environment
from egress.runtime.protocol import NO_OUTPUT, Output, Runtime, RuntimeProcess
from egress.runtime.spec import Command, ExecResult, Values
from egress.sandbox.cancellation import cancelled_by, is_cancellable


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Where commands are run."""

    runtime: Runtime
    name: str
    caller: Callable[[], Values] = environment.read_environment
    """The environment of whoever holds the handle: only what he asks for by name is taken out of it."""

    def begin(self, command: Command, output: Output = NO_OUTPUT) -> RuntimeProcess:
        """Begin a command that goes on by itself."""
        return self.runtime.spawn(self.name, command, output)

    def run(self, command: Command, output: Output = NO_OUTPUT) -> ExecResult:
        """Run a command to its end; where the call is given up the command is ended."""
        if not is_cancellable():
            return self.runtime.exec(self.name, command, output)
        process = self.begin(command, output)
        if command.input is None:
            process.close_input()
        with cancelled_by(process.kill):
            return process.wait()
