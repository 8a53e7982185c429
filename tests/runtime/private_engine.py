"""An engine of a test's own, which it may kill: in a folder, with nothing of the one that others use."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from egress.runtime.docker.engine import Engine
from egress.runtime.errors import EngineUnavailableError
from tests.proxy.served import until


class PrivateEngine:
    """From `with` to its end. It makes no rules for packets and no bridge: sandboxes need neither."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.socket = folder / "engine.sock"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        self._end_the_rest()
        shutil.rmtree(self._folder, ignore_errors=True)

    @staticmethod
    def can_be_started() -> bool:
        return os.geteuid() == 0 and shutil.which("dockerd") is not None

    def start(self) -> None:
        place = self._folder
        with (place / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *("dockerd", "--data-root", str(place / "data"), "--exec-root", str(place / "exec")),
                    *("--pidfile", str(place / "pid"), "--host", f"unix://{self.socket}"),
                    *("--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._answers, "the engine to answer")

    def kill(self) -> None:
        """End it without a warning. What it has begun goes on."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def _answers(self) -> bool:
        with suppress(EngineUnavailableError):
            Engine(self.socket).close()
            return True
        return False

    def _end_the_rest(self) -> None:
        """Its own containerd outlives it when it was killed; and nothing else names this folder."""
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if str(self._folder).encode() in file.read_bytes() and int(file.parent.name) != os.getpid():
                    os.kill(int(file.parent.name), signal.SIGKILL)
