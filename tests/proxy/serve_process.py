"""`egress serve` as people run it: a process of its own, with its own home, told by signals and its socket.

    with Served(tmp_path, RULES) as served:
        assert served.ask("GET", "/readyz") == (200, ...)

What is said to it goes through processes too, so that tests which may open no socket can use this.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import tty
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.cli import forked
from tests.cli.command import Outcome, command, egress, environment, may_fork, put
from tests.cli.forked import Forked

_ASK = """
import json, sys
from pathlib import Path
from egress.cli.control_client import ask_proxy
body = json.loads(sys.argv[4])
print(json.dumps(ask_proxy(sys.argv[1], sys.argv[2], body, Path(sys.argv[3]))))
"""
_WAIT_TIMEOUT = 60.0


def until[Found](look: Callable[[], Found], what: str = "") -> Found:
    """Look until there is something; a test that waits in vain says for what."""
    end = time.monotonic() + _WAIT_TIMEOUT
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain: {what or look}")
        time.sleep(0.02)
    return found


class ServeProcess:
    """One proxy, from its start to its end."""

    def __init__(
        self,
        folder: Path,
        rules: str,
        arguments: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        trusted: bool = True,
        listen: str = "127.0.0.1:0",
    ) -> None:
        self.folder = folder
        self.rules = put(folder / "hosts.yaml", rules)
        self.arguments = [*(("--rules", "hosts.yaml") if trusted else ()), "--listen", listen, *arguments]
        # Paths of sockets may not be long, and those of tests are.
        self.runtime = Path(tempfile.mkdtemp(prefix="egress-"))
        self.env = {"EGRESS_RUNTIME_DIR": str(self.runtime), **(env or {})}
        self.under: Sequence[str] = ()
        """Words in front of its own: a program that takes something away from it, and becomes it."""
        self.out: list[str] = []
        self.err: list[str] = []
        self.port = 0

    @property
    def state(self) -> Path:
        return self.folder / ".local/state/egress"

    # Its life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.runtime)

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.out.clear()
        self.err.clear()
        self.process = self._begun(["serve", *self.arguments], environment(self.folder, self.env))
        streams = ((self.process.stdout or (), self.out), (self.process.stderr or (), self.err))
        self._readers = [threading.Thread(target=_collect, args=pair) for pair in streams]
        for reader in self._readers:
            reader.start()
        until(lambda: self.process.poll() is not None or self._ready(), "the proxy to be ready")
        if (ready := self._ready()) is None:
            raise AssertionError(f"it did not start: {self.err}")
        self.port = int(ready[1])

    def _begun(self, words: list[str], env: dict[str, str]) -> subprocess.Popen[str] | Forked:
        # A terminal, on which it says where it listens, and which changes nothing of what is written.
        reader, terminal = pty.openpty()
        tty.setraw(terminal)
        env = {**env, "TERM": "dumb"}
        if not self.under and may_fork(env):
            words_of_it = list(map(os.fsencode, words))
            return forked.begin(words_of_it, cwd=self.folder, env=env, terminal=(reader, terminal))
        process = subprocess.Popen(
            [*self.under, *command(words)],
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(terminal)
        process.stdout = os.fdopen(reader, encoding="utf-8", errors="replace")
        return process

    def kill(self) -> None:
        """End it without a warning; nothing happens when it has ended."""
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _ready(self) -> re.Match[str] | None:
        found = (re.search(r"egress is ready: proxy \S+:(\d+)", line) for line in self.out)
        is_whole = any(line.startswith("  stop it with") for line in self.out)
        return next((match for match in found if match), None) if is_whole else None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end, and return its status."""
        return self.process.wait(_WAIT_TIMEOUT)

    # What is said to it

    def egress(self, *arguments: str) -> Outcome:
        """Another command of the same user, in the same folder."""
        return egress(*arguments, cwd=self.folder, env=self.env)

    def ask(self, method: str, path: str, **body: object) -> tuple[int, dict[str, object]]:
        words = [word.encode() for word in (method, path, str(self.runtime), json.dumps(body))]
        env = environment(self.folder)
        status, out, err = forked.run(words, cwd=self.folder, env=env, timeout=_WAIT_TIMEOUT, program=_ASK)
        assert status == 0, err
        code, answer = json.loads(out)
        return code, answer

    def write(self, rules: str) -> None:
        """Replace the rules the way editors do."""
        put(self.folder / "hosts.yaml.new", rules).replace(self.rules)

    # What it says

    def logged(self, event: str) -> list[dict[str, object]]:
        lines = (json.loads(line) for line in list(self.err) if line.startswith("{"))
        return [line for line in lines if line["event"] == event]

    def records(self, event: str = "") -> list[dict[str, object]]:
        """The lines of the audit log."""
        files = sorted((self.state / "audit").glob("*.jsonl"))
        text = "".join(file.read_text(encoding="utf-8") for file in files)
        # The last line may be under way.
        whole = (json.loads(line) for line in text.split("\n")[:-1])
        return [line for line in whole if event in ("", line["event"])]

    def recorded(self, event: str, count: int = 1) -> list[dict[str, object]]:
        """Wait for so many records."""

        def look() -> list[dict[str, object]]:
            found = self.records(event)
            return found if len(found) >= count else []

        return until(look, f"{count} x {event} in the audit log")


def _collect(stream: Iterable[str], lines: list[str]) -> None:
    # Each as it comes: others look meanwhile. The end of a terminal is an error.
    with contextlib.suppress(OSError):
        for line in stream:
            lines += [line.rstrip("\n")]
