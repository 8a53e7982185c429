"""A command in a pod: its words and variables go in front of its input, and its end stands behind its output.

The API server tells the end of a command only when each process has closed its output, and its exec takes
neither variables nor a folder. The supervisor reports the end behind both outputs, and `begin.sh` reads the
words and the variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from egress.cluster.api_server import ClusterApi
from egress.cluster.pod_exec import PodExec, open_exec
from egress.errors import WireError
from egress.runtime.errors import (
    EngineError,
    EngineUnavailableError,
    SandboxDiedError,
    SandboxError,
)
from egress.runtime.kubernetes.api_errors import translated_errors
from egress.runtime.kubernetes.pod_manifest import SCRIPTS_FOLDER
from egress.runtime.kubernetes.pod_status import CONTAINER_NAME, PodRecord
from egress.runtime.kubernetes.pods import Pods
from egress.runtime.marker_splitter import MarkerSplitter
from egress.runtime.proc_scripts import SUPERVISOR_PATH
from egress.runtime.spec import NO_VALUES, Terminal, Values
from egress.runtime.supervised_process import StreamName

_SHELL: Final = "/bin/sh"
_NOT_BEGUN_STATUS: Final = 126
_END_OF_INPUT: Final = b"\x04"
"""What a terminal takes for the end of input."""
_REPORT: Final = {"egress_report": "1"}


@dataclass(slots=True)
class PodRun:
    """A sandbox between its start and its end."""

    pod: str
    uid: str
    """Of its pod."""
    container: str
    """The id of the container: another one has other processes."""
    container_name: str = CONTAINER_NAME
    scripts: str = SCRIPTS_FOLDER
    """The folder of the scripts of commands."""
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class PodTarget:
    """The pod in which a command runs."""

    pods: Pods
    name: str
    folder: str
    run: PodRun
    variables: Values = NO_VALUES
    """Of the sandbox, where its pod does not have them."""

    @property
    def api(self) -> ClusterApi:
        return self.pods.api

    def begin(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        *,
        has_input: bool,
        terminal: Terminal | None,
        token: str = "",
    ) -> PodCommand:
        if self.run.is_over:
            raise EngineError(f"the sandbox {self.name} is being ended", "start it again")
        words, env = list(words), {**self.variables, **env}
        if words[1:2] == [SUPERVISOR_PATH]:
            # In the pod of a template the scripts lie elsewhere.
            words[1] = self._script("supervisor.sh")
        if terminal is not None:
            # Input belongs to the terminal from the first byte, so the words are in the request.
            assigned = [f"{name}={value}" for name, value in env.items()]
            with translated_errors():
                begun = [_SHELL, self._script("begin.sh"), "words", *assigned, "--", *words]
                stream = open_exec(
                    self.api, self.run.pod, self.run.container_name, begun, has_input=True, has_terminal=True
                )
            return PodCommand(stream, self.run, token, has_terminal=True)
        with translated_errors():
            stream = open_exec(
                self.api,
                self.run.pod,
                self.run.container_name,
                [_SHELL, self._script("begin.sh"), "input"],
                has_input=True,
                has_terminal=False,
            )
        stream.write(preamble(words, {**env, **(_REPORT if token else {})}))
        if not has_input:
            stream.close_input()
        return PodCommand(stream, self.run, token, has_terminal=False)

    def _script(self, name: str) -> str:
        return f"{self.run.scripts}/{name}"

    def is_alive(self) -> bool:
        return not self.run.is_over and is_running(self.pods.find(self.run.pod), self.run)

    def death(self) -> SandboxError:
        return SandboxDiedError(f"the sandbox {self.name} has ended", "start it again, or remove it")


def is_running(found: PodRecord | None, run: PodRun) -> bool:
    """Return whether the container of a run is there, in its own pod."""
    is_own = found is not None and found.metadata.uid == run.uid and not found.is_gone
    return is_own and found is not None and found.container == run.container


class PodCommand:
    """A command that was started."""

    def __init__(self, stream: PodExec, run: PodRun, token: str, *, has_terminal: bool) -> None:
        self._stream = stream
        self._run = run
        self._has_terminal = has_terminal
        self._is_aborted = False
        self._pieces: list[tuple[StreamName, bytes]] = []
        self._reported: dict[StreamName, bytes] = {}
        names: tuple[StreamName, ...] = ("stdout", "stderr") if token else ()
        self._splitters = {name: self._splitter(name, f"{token}: ended ".encode()) for name in names}

    def _splitter(self, name: StreamName, mark: bytes) -> MarkerSplitter:
        def take(data: bytes) -> None:
            # Behind its report an output is no longer that of the command.
            if name not in self._reported:
                self._pieces.append((name, data))

        return MarkerSplitter(mark, take, lambda status: self._reported.setdefault(name, status))

    def read(self) -> list[tuple[StreamName, bytes]] | None:
        while not self._pieces:
            # Both have told the end: what comes now is of a process that the command left behind.
            if self._splitters and len(self._reported) == len(self._splitters):
                return None
            try:
                found = self._stream.read()
            except WireError as error:
                raise EngineError(error.message, "see the log of the API server") from None
            if found is None:
                for each in self._splitters.values():
                    each.rest()
                break
            name, data = found
            if splitter := self._splitters.get(name):
                splitter.add(data)
            else:
                self._pieces.append((name, data))
        pieces, self._pieces = self._pieces, []
        return pieces or None

    def write(self, data: bytes) -> None:
        self._stream.write(data)

    def close_input(self) -> None:
        if self._has_terminal:
            # A terminal has no end of its own: its other direction would end with it.
            self._stream.write(_END_OF_INPUT)
        else:
            self._stream.close_input()

    def resize(self, terminal: Terminal) -> None:
        self._stream.resize(terminal.columns, terminal.rows)

    def abort(self) -> None:
        self._is_aborted = True
        self._stream.abort()

    def close(self) -> None:
        self._stream.close()

    def status(self) -> int | None:
        if self._run.is_over:
            # The end of the command and that of the sandbox cannot be told apart.
            raise EngineError("the sandbox of the command has ended", "start it again")
        reported = next(iter(self._reported.values()), b"")
        # The token is in the arguments of a process, so the sandbox may have written the report.
        if reported.isdigit() and len(reported) <= 3:
            return int(reported) & 0xFF
        found = self._stream.status
        if found is not None:
            return _NOT_BEGUN_STATUS if found.exit_code is None else found.exit_code
        if self._is_aborted:
            return None
        raise EngineUnavailableError(
            "the connection to the API server ended before the command did",
            "the command may go on: list the processes of the sandbox",
        )

    def has_not_begun(self, status: int, output: bytes) -> bool:
        found = self._stream.status
        return status == _NOT_BEGUN_STATUS and not output and found is not None and found.exit_code is None


def preamble(words: Sequence[str], env: Mapping[str, str]) -> bytes:
    """Return the words and variables of a command as `begin.sh` reads them."""
    lines: list[str] = []
    for texts in ([f"{name}={value}" for name, value in env.items()], list(words)):
        lines.append(str(len(texts)))
        for text in texts:
            lines += [str(text.count("\n") + 1), text]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
