"""`Sandbox`: the API of one sandbox.

A handle is a name at a runtime, and nothing more: any number of handles may exist for one sandbox, in any
number of threads. The sandbox ends with `delete`, with the `with` block of its creator, or with its timeout,
not with a handle.
"""

from __future__ import annotations

import builtins
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from egress.fleet.lifetime import OnIdle, SandboxLifetime
from egress.fleet.protocol import Preview, Snapshot, SnapshotKind
from egress.runtime.protocol import Runtime
from egress.runtime.spec import NO_VALUES, ExecResult, Info, RunRights, Spec, State, Values, check_name
from egress.sandbox import capabilities, options, unpacking
from egress.sandbox.audit import SandboxAudit
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.default_fleet import find_runtime
from egress.sandbox.errors import checked
from egress.sandbox.files import Files
from egress.sandbox.git import Git
from egress.sandbox.options import Input, Line, Size, Variables, Volumes
from egress.sandbox.output_decoder import OutputCallback, decoded_output
from egress.sandbox.paths import resolve
from egress.sandbox.policy import SandboxPolicy
from egress.sandbox.port_wait import await_port
from egress.sandbox.process import MAX_KEPT_BYTES, Process
from egress.sandbox.processes_and_sessions import ProcessesAndSessions
from egress.sandbox.terminal import Pty

_PLACEHOLDER_NAME: Final = "ready"
"""The name for prepared sandboxes, which have none yet."""


class Sandbox(ProcessesAndSessions):
    r"""A sandbox.

    >>> with Sandbox.create() as sandbox:  # doctest: +SKIP
    ...     sandbox.exec("echo hello").text
    'hello\n'
    """

    def __init__(self, runtime: Runtime, name: str, *, ends_with_block: bool = False) -> None:
        """Hold an existing sandbox; see `create` and `connect`."""
        super().__init__(CommandRunner(runtime, name))
        self._ends_with_block = ends_with_block
        self.files = Files(self._place)
        self.git = Git(self._place)
        self.policy = SandboxPolicy(self._place)
        self.audit = SandboxAudit(self._place)

    def __repr__(self) -> str:
        return f"<Sandbox {self.name!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ends_with_block:
            self.delete()

    # Creation

    @classmethod
    def create(  # noqa: PLR0913 - each parameter is a setting of the sandbox
        cls,
        *,
        name: str | None = None,
        image: str | None = None,
        snapshot: str | None = None,
        profile: str | None = None,
        params: Values = NO_VALUES,
        env: Variables | None = None,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        on_idle: OnIdle = "delete",
        memory: Size | None = None,
        cpus: float | None = None,
        pids: int | None = None,
        size: Size | None = None,
        temporary: Size | None = None,
        labels: Values = NO_VALUES,
        volumes: Volumes | None = None,
        runtime: Runtime | str | None = None,
    ) -> Self:
        """Create a sandbox and start it. In a fleet, the same call again returns the existing sandbox.

        Args:
            name: random by default.
            image: its file system; by default an image that comes with Egress.
            snapshot: the name of a snapshot whose files it begins with; see the method `snapshot`.
            profile: the profile of the rules for it.
            params: its values for parameters of the rules, such as `{"repo": "acme/site"}`.
            env: variables for its commands; a value of None copies the caller's own variable.
            timeout: seconds until it is removed.
            idle_timeout: seconds without use until `on_idle` happens.
            on_idle: "delete" removes it, "sleep" stops it until its next use; its files stay.
            memory: memory limit in MiB, or a string such as "2g".
            cpus: CPU limit; fractions are allowed.
            pids: limit of processes.
            size: disk limit in MiB, or a string such as "4g": for everything it writes, besides /tmp.
                Such a disk lies in memory, and is empty after a stop. Unlimited by default.
            temporary: the size of its /tmp when `size` is given, in MiB, or a string such as "512m".
            labels: for `list`.
            volumes: host folders that it sees, `{"/srv/data": "/data"}`; `"/data:rw"` is writable.
            runtime: "docker", "namespace", "kubernetes", a runtime of the engine such as "runsc", or a
                `Runtime`; by default `egress up` if it runs, else a fleet of this process alone.

        Raises `SpecError` and `UsageError` for invalid arguments, `SandboxDiffersError` if a sandbox of this
        name has other settings, and errors of the runtime.

        >>> Sandbox.create(name="builder", memory="2g", env={"CI": "1"})  # doctest: +SKIP
        <Sandbox 'builder'>
        """
        home = find_runtime(runtime)
        called = options.random_name() if name is None else name
        place = CommandRunner(home, called)
        # The caller's own ids, so that files in writable mounts keep their owner.
        user, group = options.caller_ids()
        spec = Spec(
            name=called,
            image=capabilities.choose_image(home, image, snapshot or ""),
            profile=profile,
            parameters=params,
            user=user,
            group=group,
            env=options.variables(env, place.caller),
            limits=options.limits(memory=memory, cpus=cpus, pids=pids, size=size, temporary=temporary),
            mounts=options.mounts(volumes),
            labels=labels,
        )
        # Started here: a created sandbox accepts no commands yet.
        terms = SandboxLifetime(
            timeout=timeout, idle_timeout=idle_timeout, on_idle=on_idle, snapshot=snapshot or ""
        )
        capabilities.create_sandbox(home, spec, terms)
        home.start(called)
        return cls(home, called, ends_with_block=True)

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
        runtime: Runtime | str | None = None,
    ) -> None:
        """Keep this many sandboxes ready for `create` with the same arguments; 0 ends it.

        Each is used once, and replaced by a new one; name, profile, env and labels are set when it is used.
        Returns before they are ready; they end with their `runtime`. Sandboxes with volumes cannot be
        prepared. Namespace sandboxes start fast enough without, so none are kept.

        Raises `SpecError` for too many, and `ImageMissingError`.

        >>> Sandbox.prepare(2, memory="1g")  # doctest: +SKIP
        """
        home = find_runtime(runtime)
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
    def connect(cls, name: str, *, runtime: Runtime | str | None = None) -> Self:
        """Hold an existing sandbox, which the end of a `with` block leaves. Raises `SandboxNotFoundError`.

        >>> Sandbox.connect("builder")  # doctest: +SKIP
        <Sandbox 'builder'>
        """
        check_name(name)
        home = find_runtime(runtime)
        home.info(name)
        return cls(home, name)

    @classmethod
    def list(cls, *, labels: Values = NO_VALUES, runtime: Runtime | str | None = None) -> builtins.list[Info]:
        """Return the sandboxes with all of these labels, by name.

        >>> [each.name for each in Sandbox.list(labels={"team": "a"})]  # doctest: +SKIP
        ['builder']
        """
        return [*find_runtime(runtime).list(labels)]

    # Lifecycle

    def stop(self) -> None:
        """End its processes. Files stay, unless `size` is limited; `start` starts it again.

        >>> sandbox.stop()  # doctest: +SKIP
        """
        self._place.runtime.stop(self.name)

    def start(self) -> None:
        """Make it ready for commands. Does nothing if it is.

        >>> sandbox.start()  # doctest: +SKIP
        """
        self._place.runtime.start(self.name)

    def sleep(self) -> None:
        """Stop it until its next use, which starts it again. Its files stay, its processes end.

        Raises `SandboxStateError` if it does not run, or has a limited `size`, and `UnsupportedError` for a
        runtime alone.

        >>> sandbox.sleep()  # doctest: +SKIP
        """
        capabilities.require_fleet(self._place.runtime, "put sandboxes to sleep").sleep(self.name)

    def wake(self) -> None:
        """Start it if it is asleep. Every use does that too: this only does it earlier.

        >>> sandbox.wake()  # doctest: +SKIP
        """
        capabilities.require_fleet(self._place.runtime, "wake sandboxes").wake(self.name)

    def delete(self) -> None:
        """Remove it with its files. Does nothing if it does not exist.

        >>> sandbox.delete()  # doctest: +SKIP
        """
        self._place.runtime.remove(self.name)

    def pause(self) -> None:
        """Freeze all processes. Does nothing if they are frozen.

        >>> sandbox.pause()  # doctest: +SKIP
        """
        self._place.runtime.pause(self.name)

    def resume(self) -> None:
        """Thaw the processes.

        >>> sandbox.resume()  # doctest: +SKIP
        """
        self._place.runtime.resume(self.name)

    def set_timeout(self, seconds: float | None) -> None:
        """Let it be removed so many seconds from now, whatever its timeout was; None removes the limit.

        A program that creates it again with its first settings still finds it.

        >>> sandbox.set_timeout(3600)  # doctest: +SKIP
        """
        fleet = capabilities.require_fleet(self._place.runtime, "change time limits")
        fleet.change_lifetime(self.name, {"timeout": seconds})

    def set_idle_timeout(self, seconds: float | None) -> None:
        """Change the seconds without use after which it is removed, or sleeps; None removes the limit.

        >>> sandbox.set_idle_timeout(600)  # doctest: +SKIP
        """
        fleet = capabilities.require_fleet(self._place.runtime, "change time limits")
        fleet.change_lifetime(self.name, {"idle_timeout": seconds})

    def info(self) -> Info:
        """Return its facts and state. Raises `SandboxNotFoundError`.

        >>> sandbox.info().image  # doctest: +SKIP
        'host'
        """
        return self._place.runtime.info(self.name)

    def status(self) -> State:
        """Return its state: created, running, paused, stopped or asleep. Raises `SandboxNotFoundError`.

        >>> sandbox.status()  # doctest: +SKIP
        'running'
        """
        return self.info().state

    # Commands

    def exec(  # noqa: PLR0913 - each parameter is a setting of the command
        self,
        command: Line,
        *,
        cwd: str | None = None,
        env: Variables | None = None,
        timeout: float | None = None,
        input: Input | None = None,  # noqa: A002 - the name that `subprocess` uses
        check: bool = False,
        text: bool = True,
        on_stdout: OutputCallback | None = None,
        on_stderr: OutputCallback | None = None,
        profile: str | None = None,
        params: Values = NO_VALUES,
    ) -> ExecResult:
        r"""Run a command to its end. Any status is a result, unless `check` is set.

        Args:
            command: a string runs in bash, or in sh where the image has no bash; a list runs directly.
            cwd: an absolute path; by default the workspace.
            env: variables in addition to the sandbox's; a value of None copies the caller's own variable.
            timeout: seconds until it is ended; the status is then 124.
            input: a string, bytes or a file; empty by default.
            check: raise `FailedCommandError` for a status other than 0, `LateCommandError` for a timeout.
            text: whether the callbacks get strings; bytes otherwise.
            on_stdout: gets each piece of output as it arrives, in another thread.
            on_stderr: the same for standard error.
            profile: the profile of the rules for this command alone, by a ticket that ends with it.
            params: values for parameters of the rules, for this command alone.

        Raises `SandboxDiedError` if the sandbox ends meanwhile, and `GrantRefusedError` for a profile that
        the rules do not have.

        >>> sandbox.exec(["wc", "-c"], input="four").text  # doctest: +SKIP
        '4\n'
        """
        made = options.command(
            command,
            cwd=cwd,
            env=self._variables(env),
            timeout=timeout,
            source=input,
            rights=RunRights.asked(profile, params),
        )
        with decoded_output(on_stdout, on_stderr, text=text) as output:
            result = self._place.run(made, output)
        return checked(result) if check else result

    def spawn(  # noqa: PLR0913 - each parameter is a setting of the command
        self,
        command: Line,
        *,
        cwd: str | None = None,
        env: Variables | None = None,
        timeout: float | None = None,
        text: bool = True,
        on_stdout: OutputCallback | None = None,
        on_stderr: OutputCallback | None = None,
        keep: int = MAX_KEPT_BYTES,
        profile: str | None = None,
        params: Values = NO_VALUES,
    ) -> Process:
        """Start a command in the background. Arguments are those of `exec`.

        `keep` is the number of bytes kept of each output: the newest.

        >>> server = sandbox.spawn(["python3", "-m", "http.server", "8000"])  # doctest: +SKIP
        """
        rights = RunRights.asked(profile, params)
        made = options.command(command, cwd=cwd, env=self._variables(env), timeout=timeout, rights=rights)
        return Process(self._place, made, text=text, on_stdout=on_stdout, on_stderr=on_stderr, keep=keep)

    def pty(
        self,
        command: Line | None = None,
        *,
        cols: int = 80,
        rows: int = 24,
        cwd: str | None = None,
        env: Variables | None = None,
        profile: str | None = None,
        params: Values = NO_VALUES,
    ) -> Pty:
        """Run a program in a terminal of type xterm-256color; a shell by default.

        `profile` and `params` are those of `exec`.

        >>> terminal = sandbox.pty(cols=120, rows=40)  # doctest: +SKIP
        """
        rights = RunRights.asked(profile, params)
        return Pty(self._place, command, cols, rows, cwd, self._variables(env), rights)

    # Ports

    def expose(self, port: int, *, expires: float | None = None) -> str:
        """Expose a port to browsers, for `expires` seconds if given; returns the address with its token.

        A port that is exposed keeps its address. `expires` replaces the time it has left.

        >>> sandbox.expose(8000, expires=3600)  # doctest: +SKIP
        'http://8000-builder-k3f7q2mxta.localhost:41233/?token=…'
        """
        fleet = capabilities.require_fleet(self._place.runtime, "expose ports")
        return fleet.expose(self.name, port, expires).url

    def previews(self) -> builtins.list[Preview]:
        """Return the exposed ports of this sandbox, each with its address, its token and its time.

        >>> sandbox.previews()[0].left  # doctest: +SKIP
        3542.7
        """
        found = capabilities.require_fleet(self._place.runtime, "expose ports").previews()
        return [each for each in found if each.sandbox == self.name]

    def unexpose(self, port: int) -> None:
        """Withdraw a port. Does nothing if it is not exposed.

        >>> sandbox.unexpose(8000)  # doctest: +SKIP
        """
        capabilities.require_fleet(self._place.runtime, "expose ports").unexpose(self.name, port)

    def wait_for_port(self, port: int, timeout: float | None = None) -> None:
        """Wait until a program in it listens on a TCP port. Raises `SandboxTimeoutError`.

        >>> sandbox.wait_for_port(8000, timeout=10)  # doctest: +SKIP
        """
        await_port(self._place, port, timeout)

    # The workspace

    def save(self, file: str | Path | BinaryIO) -> None:
        """Write the content of the workspace to a tar archive on this machine.

        >>> sandbox.save("workspace.tar")  # doctest: +SKIP
        """
        with self._place.runtime.get(self.name, resolve(self._place, ".")) as archive:
            unpacking.write_archive(archive, file)

    def restore(self, file: str | Path | BinaryIO, *, clear: bool = False) -> None:
        """Unpack an archive of `save` into the workspace; with `clear`, other files there are removed.

        Raises `ArchiveError` for a hostile archive: no file outside of the workspace is written.

        >>> sandbox.restore("workspace.tar")  # doctest: +SKIP
        """
        with unpacking.open_archive(file) as archive:
            if not clear:
                self._place.runtime.put(self.name, resolve(self._place, "."), archive)
                return
            # Filter the archive first: no file is removed for an archive that is then refused.
            with unpacking.filtered_archive(archive) as clean:
                for each in self.files.listdir():
                    self.files.remove(each, recursive=True)
                self._place.runtime.put(self.name, resolve(self._place, "."), clean)

    # Snapshots

    def snapshot(self, name: str, *, kind: SnapshotKind = "workspace") -> Snapshot:
        """Keep its files under a name on this machine, for `create(snapshot=name)`.

        `kind="image"` keeps the whole file system of a container, and not the workspace alone. Raises
        `SnapshotExistsError`, `SnapshotQuotaError`, and `UnsupportedError` for a kind that this runtime does
        not have.

        >>> sandbox.snapshot("with-packages").size  # doctest: +SKIP
        10240
        """
        fleet = capabilities.require_fleet(self._place.runtime, "keep snapshots")
        return fleet.snapshot(self.name, name, kind)

    @classmethod
    def snapshots(cls, *, runtime: Runtime | str | None = None) -> builtins.list[Snapshot]:
        """Return the snapshots, by name.

        >>> [each.name for each in Sandbox.snapshots()]  # doctest: +SKIP
        ['with-packages']
        """
        return [*capabilities.require_fleet(find_runtime(runtime), "keep snapshots").snapshots()]

    @classmethod
    def delete_snapshot(cls, name: str, *, runtime: Runtime | str | None = None) -> None:
        """Delete a snapshot. Raises `SnapshotNotFoundError`.

        >>> Sandbox.delete_snapshot("with-packages")  # doctest: +SKIP
        """
        capabilities.require_fleet(find_runtime(runtime), "keep snapshots").delete_snapshot(name)
