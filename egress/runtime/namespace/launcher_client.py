"""The runtime's side of one sandbox's processes: the launcher, and the init process that it starts.

The launcher lives as long as the sandbox, and the network with it. An init process lives from a start to a
stop. Neither is trusted: their messages are read as a few plain values.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from egress.runtime import open_file_limit
from egress.runtime.errors import DoorError, SandboxDiedError, SandboxError, SandboxStateError
from egress.runtime.namespace import kernel_support

_LAUNCH_CODE: Final = "from egress.runtime.namespace.inside.launch import main; main(%d)"
_MAX_MESSAGE_BYTES: Final = 4096
_ANSWER_TIMEOUT: Final = 30.0


class LauncherClient:
    """The namespaces of one sandbox."""

    def __init__(self, name: str, plan: Mapping[str, object], ended: Callable[[], None]) -> None:
        """Start the launcher; `ended` is called when an init process ended. See `wait_until_made`."""
        self._name = name
        self._ended = ended
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control: socket.socket | None = None
        self._using = threading.Lock()
        self._changed = threading.Condition()
        self._first_lives = False
        self.can_freeze = False
        self.first = 0
        """The process id of init on this machine; 0 without one."""
        open_file_limit.raise_own_limit()
        with theirs:
            self._process = subprocess.Popen(
                kernel_support.python_command(_LAUNCH_CODE % theirs.fileno()),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={},
                cwd="/",
                start_new_session=True,
            )
        # The plan goes through standard input: it is too large for an argument, and not for /proc/*/cmdline.
        self._write_plan(plan)

    def _write_plan(self, plan: Mapping[str, object]) -> None:
        stream = self._process.stdin
        if stream is None:
            raise RuntimeError("a process without the input it was given")
        with suppress(BrokenPipeError), stream:
            stream.write(json.dumps(plan).encode())

    @property
    def pid(self) -> int:
        """The process id of the launcher."""
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_made(self) -> None:
        """Wait until the namespaces are ready. Raises `SandboxError`."""
        self._line.settimeout(_ANSWER_TIMEOUT)
        try:
            answer = _values(self._line.recv(_MAX_MESSAGE_BYTES))
        except OSError:
            answer = {}
        if answer.get("made") is not True:
            raise _launch_error(self._name, answer)
        self.can_freeze = answer.get("freezer") is True
        self._line.settimeout(None)
        threading.Thread(target=self._listen, name=f"egress-{self._name}-end", daemon=True).start()

    def start(self) -> None:
        """Start an init process. Raises `SandboxError`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                # Set before the request: init may end before this thread continues.
                with self._changed:
                    self._first_lives = True
                socket.send_fds(self._line, [b"start"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise _dead_error(self._name) from None
        ours.settimeout(_ANSWER_TIMEOUT)
        try:
            answer = ours.recv(_MAX_MESSAGE_BYTES)
        except OSError:
            answer = b""
        if answer != b"ready":
            ours.close()
            raise _launch_error(self._name, {"failed": "first process", **_values(answer)})
        self._control = ours
        with self._changed:
            self._changed.wait_for(lambda: self.first or not self._first_lives, _ANSWER_TIMEOUT)

    def stop(self) -> None:
        """End the init process, and all processes with it. Returns when they are gone."""
        self._hang_up()
        with self._changed:
            if self._changed.wait_for(lambda: not self._first_lives, _ANSWER_TIMEOUT):
                return
        # Hanging up was not enough: the launcher kills init.
        with suppress(OSError):
            self._line.send(b"end")
        with self._changed:
            self._changed.wait_for(lambda: not self._first_lives, _ANSWER_TIMEOUT)

    def spawn(self, descriptors: list[int]) -> None:
        """Ask init for a command. Raises `SandboxDiedError`."""
        with self._using:
            if self._control is None:
                raise _dead_error(self._name)
            try:
                socket.send_fds(self._control, [b"spawn"], descriptors)
            except OSError:
                raise _dead_error(self._name) from None

    def pause_commands(self, *, is_paused: bool) -> None:
        """Stop or continue all commands, without a freezable group."""
        with self._using:
            if self._control is None:
                raise _dead_error(self._name)
            try:
                self._control.send(b"pause" if is_paused else b"resume")
                answer = self._control.recv(_MAX_MESSAGE_BYTES)
            except OSError:
                answer = b""
        if answer != b"done":
            raise _dead_error(self._name)

    def close(self) -> None:
        """End all processes. Returns when they are gone."""
        self._hang_up()
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(_ANSWER_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._line.close()

    def _hang_up(self) -> None:
        with self._using:
            if self._control is not None:
                self._control.close()
                self._control = None

    def _listen(self) -> None:
        while True:
            try:
                message = self._line.recv(_MAX_MESSAGE_BYTES)
            except OSError:
                message = b""
            found = _values(message)
            # A start is reported; the thread that waits in `start` needs the process id.
            if message and "ended" not in found:
                with self._changed:
                    self.first = int(str(found.get("begun", 0)))
                    self._changed.notify_all()
                continue
            self._hang_up()
            with self._changed:
                told = self._first_lives
                self._first_lives = False
                self.first = 0
                self._changed.notify_all()
            # Outside of the lock: the callback may start the sandbox again, which takes the lock.
            if told:
                self._ended()
            if not message:
                return


def _values(message: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(message)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _launch_error(name: str, answer: Mapping[str, object]) -> SandboxError:
    stage, path = answer.get("failed"), answer.get("path")
    found = answer.get("errno")
    number = found if isinstance(found, int) else 0
    reason = os.strerror(number).lower() if number else "the process died"
    if stage in ("namespaces", "network"):
        return kernel_support.refusal_error(number, kernel_support.kernel_settings())
    where = f" at {path}" if isinstance(path, str) and path else ""
    if stage == "mounts":
        return SandboxStateError(
            f"cannot build the file system of the sandbox {name}{where}: {reason}",
            "check that its mounts still exist, and that its user may read them",
        )
    if stage == "control groups":
        return DoorError(f"cannot set up the sandbox {name}: {reason}", "remove it, and create it again")
    return SandboxStateError(
        f"the sandbox {name} did not start: {reason}",
        "in a container with a masked /proc no new /proc can be mounted: use the docker runtime there",
    )


def _dead_error(name: str) -> SandboxDiedError:
    return SandboxDiedError(f"the sandbox {name} has ended", "start it again, or remove it")
