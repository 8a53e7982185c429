"""`Sandbox`: what a program holds of a sandbox.

It is a name at a runtime, and nothing else: any number of handles may be there for one sandbox, in any number
of threads, and each does the same. The sandbox ends with `delete`, with the `with` block of whoever made it,
or when its time is over, not with a handle.
"""

from __future__ import annotations

import builtins
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from egress.fleet.lifetime import SandboxLifetime
from egress.runtime.protocol import Output, Runtime
from egress.runtime.spec import NO_VALUES, ExecResult, Info, Spec, State, Values, check_name
from egress.sandbox import capabilities, options, unpacking
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.default_fleet import DEFAULT_FLEET
from egress.sandbox.errors import checked
from egress.sandbox.files import Files
from egress.sandbox.git import Git
from egress.sandbox.options import Input, Line, Size, Variables, Volumes
from egress.sandbox.paths import resolve
from egress.sandbox.port_wait import await_port
from egress.sandbox.process import MAX_KEPT_BYTES, OutputCallback, Process
from egress.sandbox.session import Session
from egress.sandbox.terminal import Pty

_PLACEHOLDER_NAME: Final = "ready"
"""What is made ahead has no name yet."""


class Sandbox:
    r"""One sandbox.

    >>> with Sandbox.create() as sandbox:  # doctest: +SKIP
    ...     sandbox.exec("echo hello").text
    'hello\n'
    """

    def __init__(self, runtime: Runtime, name: str) -> None:
        """Hold one that is there; see `create` and `connect`."""
        self._place = CommandRunner(runtime, name)
        self.files = Files(self._place)
        self.git = Git(self._place)

    @property
    def name(self) -> str:
        """Its name."""
        return self._place.name

    def __repr__(self) -> str:
        return f"<Sandbox {self.name!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete()

    # Coming

    @classmethod
    def create(  # noqa: PLR0913 - each is a field of a sandbox, and has its name
        cls,
        *,
        name: str | None = None,
        image: str | None = None,
        profile: str | None = None,
        env: Variables | None = None,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        memory: Size | None = None,
        cpus: float | None = None,
        pids: int | None = None,
        size: Size | None = None,
        temporary: Size | None = None,
        labels: Values = NO_VALUES,
        volumes: Volumes | None = None,
        runtime: Runtime | None = None,
    ) -> Self:
        """Make a sandbox and start it; in a fleet the same again gives the one that is there.

        Args:
            name: made up, if not said.
            image: what it has for a file system; if not said, one that comes with Egress.
            profile: the profile of the rules that holds for it.
            env: variables of its commands; None as a value copies the caller's own.
            timeout: seconds after which it is removed.
            idle_timeout: seconds after which it is removed when nothing was done with it.
            memory: at most, in MiB or as in "2g".
            cpus: at most; a half is one.
            pids: processes at most.
            size: of its disk, in MiB or as in "4g": what it can write in all, besides /tmp. It lies in
                memory then, and is empty after a stop. Not bounded, if not said.
            temporary: of its /tmp where `size` is given, in MiB or as in "512m".
            labels: by which `list` finds it.
            volumes: folders of this machine that it sees, `{"/srv/data": "/data"}`; to write `"/data:rw"`.
            runtime: where it is made; if not said, what `egress up` serves, or one of this process alone.

        Raises `SpecError` and `UsageError` for what cannot be, `SandboxDiffersError` where there is another
        one of this name, and what keeps a runtime from making it.

        >>> Sandbox.create(name="builder", memory="2g", env={"CI": "1"})  # doctest: +SKIP
        <Sandbox 'builder'>
        """
        home = runtime or DEFAULT_FLEET.get()
        called = options.random_name() if name is None else name
        place = CommandRunner(home, called)
        user, group = options.caller_ids()
        spec = Spec(
            name=called,
            image=capabilities.choose_image(home, image),
            profile=profile,
            user=user,
            group=group,
            env=options.variables(env, place.caller),
            limits=options.limits(memory=memory, cpus=cpus, pids=pids, size=size, temporary=temporary),
            mounts=options.mounts(volumes),
            labels=labels,
        )
        capabilities.create_sandbox(home, spec, SandboxLifetime(timeout=timeout, idle_timeout=idle_timeout))
        home.start(called)
        return cls(home, called)

    @classmethod
    def prepare(
        cls,
        count: int,
        *,
        image: str | None = None,
        memory: Size | None = None,
        cpus: float | None = None,
        pids: int | None = None,
        size: Size | None = None,
        temporary: Size | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        """Keep so many sandboxes ready for `create` with the same arguments; 0 ends it.

        Each is used once, and another one is made in its place; name, profile, env and labels are given to it
        when it is taken. It returns before they are ready, and they go with whatever `runtime` they are in.
        Arguments are those of `create`; a sandbox with volumes is not made ahead. Namespaces are made as
        fast without, so nothing is kept of them.

        Raises `SpecError` for more than are kept, and `ImageMissingError`.

        >>> Sandbox.prepare(2, memory="1g")  # doctest: +SKIP
        """
        home = runtime or DEFAULT_FLEET.get()
        user, group = options.caller_ids()
        spec = Spec(
            name=_PLACEHOLDER_NAME,
            image=capabilities.choose_image(home, image),
            user=user,
            group=group,
            limits=options.limits(memory=memory, cpus=cpus, pids=pids, size=size, temporary=temporary),
        )
        home.prepare(spec, count)

    @classmethod
    def connect(cls, name: str, *, runtime: Runtime | None = None) -> Self:
        """Hold a sandbox that is there. Raises `SandboxNotFoundError`.

        >>> Sandbox.connect("builder")  # doctest: +SKIP
        <Sandbox 'builder'>
        """
        check_name(name)
        home = runtime or DEFAULT_FLEET.get()
        home.info(name)
        return cls(home, name)

    @classmethod
    def list(cls, *, labels: Values = NO_VALUES, runtime: Runtime | None = None) -> builtins.list[Info]:
        """Return what sandboxes there are with all of these labels, by name.

        >>> [each.name for each in Sandbox.list(labels={"team": "a"})]  # doctest: +SKIP
        ['builder']
        """
        return [*(runtime or DEFAULT_FLEET.get()).list(labels)]

    # Going

    def stop(self) -> None:
        """End its processes. What it has written stays, unless its `size` is bounded; `start` begins anew.

        >>> sandbox.stop()  # doctest: +SKIP
        """
        self._place.runtime.stop(self.name)

    def start(self) -> None:
        """Make it ready for commands. Nothing happens where it is.

        >>> sandbox.start()  # doctest: +SKIP
        """
        self._place.runtime.start(self.name)

    def delete(self) -> None:
        """Take it away, with all that it has written. Nothing happens where it is not.

        >>> sandbox.delete()  # doctest: +SKIP
        """
        self._place.runtime.remove(self.name)

    def pause(self) -> None:
        """Freeze all of its processes. Nothing happens where they are.

        >>> sandbox.pause()  # doctest: +SKIP
        """
        self._place.runtime.pause(self.name)

    def resume(self) -> None:
        """Let its processes go on.

        >>> sandbox.resume()  # doctest: +SKIP
        """
        self._place.runtime.resume(self.name)

    def info(self) -> Info:
        """Return how it is. Raises `SandboxNotFoundError`.

        >>> sandbox.info().image  # doctest: +SKIP
        'host'
        """
        return self._place.runtime.info(self.name)

    def status(self) -> State:
        """Return its state: created, running, paused or stopped. Raises `SandboxNotFoundError`.

        >>> sandbox.status()  # doctest: +SKIP
        'running'
        """
        return self.info().state

    # Commands

    def exec(
        self,
        command: Line,
        *,
        cwd: str | None = None,
        env: Variables | None = None,
        timeout: float | None = None,
        input: Input | None = None,  # noqa: A002 - as `subprocess` has it
        check: bool = False,
        on_stdout: OutputCallback | None = None,
        on_stderr: OutputCallback | None = None,
    ) -> ExecResult:
        r"""Run a command to its end. Any status is a result, unless `check` is set.

        Args:
            command: a text is a line for the shell, a sequence is a program and its words.
            cwd: a whole path; if not said, the workspace.
            env: variables besides those of the sandbox; None as a value copies the caller's own.
            timeout: seconds after which it is ended; the status is 124 then.
            input: what it reads: text, bytes or a file. Nothing, if not said.
            check: raise `FailedCommandError` for another status than 0, `LateCommandError` for a timeout.
            on_stdout: told each piece of output as it comes, in another thread.
            on_stderr: the same for the other output.

        Raises `SandboxDiedError` where the sandbox ends under it.

        >>> sandbox.exec(["wc", "-c"], input="four").text  # doctest: +SKIP
        '4\n'
        """
        made = options.command(command, cwd=cwd, env=self._variables(env), timeout=timeout, source=input)
        result = self._place.run(made, Output(on_stdout, on_stderr))
        return checked(result) if check else result

    def spawn(
        self,
        command: Line,
        *,
        cwd: str | None = None,
        env: Variables | None = None,
        timeout: float | None = None,
        on_stdout: OutputCallback | None = None,
        on_stderr: OutputCallback | None = None,
        keep: int = MAX_KEPT_BYTES,
    ) -> Process:
        """Begin a command that goes on by itself. Arguments are those of `exec`.

        `keep` says how many bytes of each output are kept for those who read it: the newest.

        >>> server = sandbox.spawn(["python3", "-m", "http.server", "8000"])  # doctest: +SKIP
        """
        made = options.command(command, cwd=cwd, env=self._variables(env), timeout=timeout)
        return Process(self._place, made, on_stdout=on_stdout, on_stderr=on_stderr, keep=keep)

    def session(
        self, *, shell: str = "/bin/sh", cwd: str | None = None, env: Variables | None = None
    ) -> Session:
        """Begin a shell that keeps its folder, its variables and its state between commands.

        >>> session = sandbox.session(cwd="/workspace")  # doctest: +SKIP
        """
        return Session(self._place, shell=shell, cwd=cwd, env=self._variables(env))

    def pty(
        self,
        command: Line | None = None,
        *,
        cols: int = 80,
        rows: int = 24,
        cwd: str | None = None,
        env: Variables | None = None,
    ) -> Pty:
        """Run a program in a terminal of the kind xterm-256color; a shell, if none is named.

        >>> terminal = sandbox.pty(cols=120, rows=40)  # doctest: +SKIP
        """
        return Pty(self._place, command, cols, rows, cwd, self._variables(env))

    # Ports

    def expose(self, port: int) -> str:
        """Show a port of it to browsers on this machine; returns the address, with the token that opens it.

        >>> sandbox.expose(8000)  # doctest: +SKIP
        'http://8000-builder-k3f7q2mxta.localhost:41233/?token=…'
        """
        return capabilities.require_previews(self._place.runtime).expose(self.name, port)

    def unexpose(self, port: int) -> None:
        """Show a port no longer. Nothing happens where it is not shown.

        >>> sandbox.unexpose(8000)  # doctest: +SKIP
        """
        capabilities.require_previews(self._place.runtime).unexpose(self.name, port)

    def wait_for_port(self, port: int, timeout: float | None = None) -> None:
        """Wait until something in it listens on a TCP port. Raises `TimeoutError`.

        >>> sandbox.wait_for_port(8000, timeout=10)  # doctest: +SKIP
        """
        await_port(self._place, port, timeout)

    # The workspace

    def save(self, file: str | Path | BinaryIO) -> None:
        """Write all that the workspace holds to a tar archive on this machine.

        >>> sandbox.save("workspace.tar")  # doctest: +SKIP
        """
        with self._place.runtime.get(self.name, resolve(self._place, ".")) as archive:
            unpacking.write_archive(archive, file)

    def restore(self, file: str | Path | BinaryIO, *, clear: bool = False) -> None:
        """Lay what an archive of `save` holds down in the workspace; with `clear` nothing else stays there.

        Raises `ArchiveError` for an archive of another kind: nothing outside the workspace is written.

        >>> sandbox.restore("workspace.tar")  # doctest: +SKIP
        """
        with unpacking.open_archive(file) as archive:
            if not clear:
                self._place.runtime.put(self.name, resolve(self._place, "."), archive)
                return
            # Nothing is removed for an archive that would be refused then.
            with unpacking.filtered_archive(archive) as clean:
                for each in self.files.listdir():
                    self.files.remove(each, recursive=True)
                self._place.runtime.put(self.name, resolve(self._place, "."), clean)

    # Inside

    def _variables(self, env: Variables | None) -> Values:
        return options.variables(env, self._place.caller)
