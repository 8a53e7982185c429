"""Start processes and sessions in a sandbox, and find them again by their ids.

`Sandbox` inherits them.
"""

from __future__ import annotations

from egress.fleet.process_interface import DEFAULT_KEPT_BYTES, ProcessStatus, ProcessTracker
from egress.fleet.session_interface import SessionStatus, SessionTracker, ShellSettings
from egress.fleet.session_table import SessionTable
from egress.runtime.spec import NO_VALUES, Command, RunRights, Terminal, Values
from egress.sandbox import capabilities, options
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.found_process import FoundProcess
from egress.sandbox.options import Line, Variables, command_words
from egress.sandbox.session import Session
from egress.sandbox.terminal import SHELL_COMMAND


class ProcessesAndSessions:
    """What outlives the program that started it, if the fleet does."""

    def __init__(self, place: CommandRunner) -> None:
        self._place = place
        self._sessions = SessionTable(place.runtime)

    @property
    def name(self) -> str:
        """The name of the sandbox."""
        return self._place.name

    def start_process(
        self,
        command: Line,
        *,
        cwd: str | None = None,
        env: Variables | None = None,
        timeout: float | None = None,
        stdin: bool = False,
        keep: int = DEFAULT_KEPT_BYTES,
        profile: str | None = None,
        params: Values = NO_VALUES,
    ) -> FoundProcess:
        """Start a command that any program finds again by its id, until the sandbox is removed.

        It outlives this program if the fleet does. `stdin` says whether input follows; `keep` is the number
        of bytes kept of each output: the newest. `profile` and `params` are those of `exec`. Raises
        `UnsupportedError` for a runtime alone.

        >>> sandbox.start_process(["python3", "-m", "http.server", "8000"]).id  # doctest: +SKIP
        '9f2c4e1ab07d5538'
        """
        source = None if stdin else b""
        made = options.command(
            command,
            cwd=cwd,
            env=self._variables(env),
            timeout=timeout,
            source=source,
            rights=RunRights.asked(profile, params),
        )
        return FoundProcess(self._tracker().start(self.name, made, keep))

    def start_terminal(
        self,
        command: Line | None = None,
        *,
        cols: int = 80,
        rows: int = 24,
        cwd: str | None = None,
        env: Variables | None = None,
        keep: int = DEFAULT_KEPT_BYTES,
        profile: str | None = None,
        params: Values = NO_VALUES,
    ) -> FoundProcess:
        """Start a program in a terminal that goes on without this one; a shell by default.

        Any program finds it again by its id, and attaches to it: see `FoundProcess.attach`. `profile` and
        `params` are those of `exec`. Raises `UnsupportedError` for a runtime alone.

        >>> sandbox.start_terminal(["top"]).id  # doctest: +SKIP
        '9f2c4e1ab07d5538'
        """
        made = Command(
            argv=SHELL_COMMAND if command is None else command_words(command),
            cwd=cwd,
            env=self._variables(env),
            terminal=Terminal(columns=cols, rows=rows),
            rights=RunRights.asked(profile, params),
        )
        return FoundProcess(self._tracker().start(self.name, made, keep))

    def processes(self) -> list[ProcessStatus]:
        """Return its processes that have an id: those that run, and the last that ended.

        >>> [(each.id, each.state) for each in sandbox.processes()]  # doctest: +SKIP
        [('9f2c4e1ab07d5538', 'running')]
        """
        return [*self._tracker().all(self.name)]

    def process(self, process: str) -> FoundProcess:
        """Return the process of this id. Raises `ProcessNotFoundError`.

        >>> sandbox.process("9f2c4e1ab07d5538").wait(timeout=10, port=8000)  # doctest: +SKIP
        """
        return FoundProcess(self._tracker().get(self.name, process))

    def session(
        self,
        session: str | None = None,
        *,
        shell: str | None = None,
        cwd: str | None = None,
        env: Variables | None = None,
        profile: str | None = None,
        params: Values = NO_VALUES,
    ) -> Session:
        """Start a shell that keeps its folder, variables and state between commands, or find it by its id.

        Args:
            session: its id, by which any program finds it, until it is closed or the sandbox ends. Random by
                default. A session that a sleep or a stop has ended begins again.
            shell: its path; by default bash, or sh where the image has no bash.
            cwd: the folder in which it begins; by default the workspace.
            env: variables in addition to the sandbox's; a value of None copies the caller's own variable.
            profile: the profile of the rules for this shell alone, by a ticket that ends with it.
            params: values for parameters of the rules, for this shell alone.

        Settings that are left out are those of the existing session. Raises `SessionDiffersError` for other
        ones, and `SandboxStateError` if the sandbox has too many sessions.

        >>> session = sandbox.session("build", cwd="/workspace")  # doctest: +SKIP
        """
        tracker = self._session_tracker()
        rights = RunRights.asked(profile, params)
        settings = ShellSettings(shell=shell, cwd=cwd, env=self._variables(env), rights=rights)
        found = tracker.open(self.name, options.random_id() if session is None else session, settings)
        return Session(tracker, self.name, found.id)

    def sessions(self) -> list[SessionStatus]:
        """Return its sessions.

        >>> [(each.id, each.state) for each in sandbox.sessions()]  # doctest: +SKIP
        [('build', 'idle')]
        """
        return [*self._session_tracker().all(self.name)]

    # Internals

    def _tracker(self) -> ProcessTracker:
        return capabilities.require_fleet(self._place.runtime, "find processes").tracked

    def _session_tracker(self) -> SessionTracker:
        runtime = self._place.runtime
        # A runtime alone finds no sessions again; this handle does, with the same code.
        return runtime.sessions if isinstance(runtime, capabilities.FleetRuntime) else self._sessions

    def _variables(self, env: Variables | None) -> Values:
        return options.variables(env, self._place.caller)
