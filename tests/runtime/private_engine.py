"""An engine of a test's own, which it may kill: in a folder, and in a network of its own.

Nothing of the one that others use is touched. In the network of the machine it would be: an engine that is
told to make no bridge removes the one that there is, whoever made it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.proxy.serve_process import until


class PrivateEngine:
    """From `with` to its end. It makes no bridge and no rules for packets: sandboxes need neither."""

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
        return os.geteuid() == 0 and None not in (shutil.which("dockerd"), shutil.which("unshare"))

    def start(self) -> None:
        place = self._folder
        with (place / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(
                        "unshare",
                        "--net",
                        "dockerd",
                        "--data-root",
                        str(place / "data"),
                        "--exec-root",
                        str(place / "exec"),
                    ),
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
        # Its containerd dies with it, and where nobody has taken note of that the next one waits for it.
        with suppress(OSError, ValueError):
            note = self._folder / "exec/containerd/containerd.pid"
            number = int(note.read_text())
            note.unlink()
            if str(self._folder).encode() in Path(f"/proc/{number}/cmdline").read_bytes():
                os.kill(number, signal.SIGKILL)

    def _answers(self) -> bool:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            sock.connect(str(self.socket))
            sock.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"200" in sock.recv(64)
        return False

    def _end_the_rest(self) -> None:
        """Its own containerd outlives it when it was killed; and nothing else names this folder."""
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if str(self._folder).encode() in file.read_bytes() and int(file.parent.name) != os.getpid():
                    os.kill(int(file.parent.name), signal.SIGKILL)
