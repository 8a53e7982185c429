"""A command in a container: prepared at the engine, attached to, and asked for its exit status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from egress.runtime.docker.engine import ContainerState, DockerEngine
from egress.runtime.docker.exec_stream import ExecStream, start_exec
from egress.runtime.errors import SandboxDiedError, SandboxError, UnsupportedError
from egress.runtime.spec import Terminal, Values

_NO_PROGRAM_STATUS: Final = 127
_NOT_BEGUN_STATUS: Final = 126
_ENGINE_ERROR_PREFIX: Final = b"OCI runtime exec failed"
"""The engine prints this instead of output if it could not start a command."""


@dataclass(frozen=True, slots=True)
class ContainerTarget:
    """The container, user, folder and variables of a command."""

    engine: DockerEngine
    container: str
    name: str
    user: str
    folder: str
    variables: Values

    def begin(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        *,
        has_input: bool,
        terminal: Terminal | None,
        token: str = "",  # noqa: ARG002 - the end of a command is told
    ) -> ContainerCommand:
        prepared = self.engine.create_exec(
            self.container,
            words,
            {**self.variables, **env},
            user=self.user,
            has_input=has_input,
            has_terminal=terminal is not None,
        )
        return ContainerCommand(self.engine, prepared, has_terminal=terminal is not None)

    def is_alive(self) -> bool:
        found = self.engine.container_state(self.container)
        return found is not None and found.is_alive

    def death(self) -> SandboxError:
        return death_error(self.name, self.engine.container_state(self.container))


class ContainerCommand(ExecStream):
    """A command that was started: its streams are a connection, and its status a question to the engine."""

    def __init__(self, engine: DockerEngine, command: str, *, has_terminal: bool = False) -> None:
        """Start a prepared command. Raises as `start_exec` does."""
        sock, early = start_exec(engine.socket, engine.api_version, command, has_terminal=has_terminal)
        super().__init__(sock, early, has_terminal=has_terminal)
        self._engine = engine
        self._command = command

    def resize(self, terminal: Terminal) -> None:
        self._engine.resize_exec(self._command, terminal.rows, terminal.columns)

    def status(self) -> int | None:
        return self._engine.exec_status(self._command)

    def has_not_begun(self, status: int, output: bytes) -> bool:
        return status == _NOT_BEGUN_STATUS and output.startswith(_ENGINE_ERROR_PREFIX)


def death_error(name: str, state: ContainerState | None) -> SandboxError:
    """The error for a sandbox that has ended, with the cause as far as it is known."""
    if state is None:
        return SandboxDiedError(
            f"the container of the sandbox {name} was removed", "remove the sandbox, and create it again"
        )
    if state.exit_code == _NO_PROGRAM_STATUS:
        return UnsupportedError(
            f"the image of the sandbox {name} has no /bin/sh, or no sleep", "use an image with a POSIX shell"
        )
    return SandboxDiedError(f"the sandbox {name} has ended", "start it again, or remove it")
