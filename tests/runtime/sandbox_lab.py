"""A proxy that runs, a stand-in for somebody's API, and a runtime of some kind between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from egress.runtime.protocol import Runtime
from egress.runtime.spec import Command, ExecResult, Spec
from tests.cli.command import put
from tests.proxy.lab.certificates import Certificates
from tests.proxy.serve_process import ServeProcess
from tests.runtime.recording_api import RecordingApi

NAME: Final = "api.example.test"
SECRET: Final = "sesame-open-sesame-42"
_RULES: Final = """\
version: 1
secrets:
  tracker: {{from: "file:{secret}", hosts: ["{name}:{port}"]}}
hosts:
  {name}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: all
    inject: [{{bearer: tracker}}]
"""

certs = Certificates()


class SandboxLab[R: Runtime](ABC):
    """All of it, from `with` to its end."""

    python = "python3"
    """Of the sandboxes."""
    without_memory = frozenset({137})
    """How a command can end that takes more memory than there is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            self.upstream = parts.enter_context(RecordingApi(certs.good(NAME)))
            self.served = parts.enter_context(self._proxy())
            self.home = self.served.runtime / "sandboxes"
            self.runtime = self.open_runtime()
            parts.callback(self._close_runtime)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def _close_runtime(self) -> None:
        # A test may have put another one in its place.
        self.runtime.close()

    @abstractmethod
    def open_runtime(self) -> R:
        """One more for the same proxy and the same folder."""

    @abstractmethod
    def spec(self, name: str, **values: object) -> Spec:
        """A sandbox as most tests want it."""

    def _proxy(self) -> ServeProcess:
        secret = put(self._folder / "secret", SECRET)
        rules = _RULES.format(secret=secret, name=NAME, port=self.upstream.port)
        ca = certs.write_ca(self._folder / "upstream-ca.pem")
        trusted = ("--upstream-ca", str(ca), "--resolve", f"{NAME}=127.0.0.1")
        return ServeProcess(self._folder, rules, ["--handover", *trusted, "--drain", "1s"])

    def room(self, name: str, **values: object) -> LabSandbox[Self]:
        """A sandbox that runs."""
        return LabSandbox(self, self._begun(name, **values))

    def _begun(self, name: str, **values: object) -> str:
        """A sandbox that runs, by its name."""
        self.runtime.create(self.spec(name, **values))
        self.runtime.start(name)
        return name


class LabSandbox[H: SandboxLab[Any]]:
    """One sandbox, and what tests do in it."""

    def __init__(self, house: H, name: str) -> None:
        self.house = house
        self.name = name
        self.recorded_before = 0
        """Lines that the log had when the test began which uses this sandbox."""

    def begin_test(self) -> None:
        """Count no line of a test before, where several use this sandbox."""
        self.recorded_before = len(self.house.served.records())

    def run(self, *words: str, **values: object) -> ExecResult:
        runtime: Runtime = self.house.runtime
        return runtime.exec(self.name, Command(argv=words, **values))  # type: ignore[arg-type]

    def sh(self, script: str, *words: str, **values: object) -> ExecResult:
        return self.run("/bin/sh", "-c", script, "sh", *words, **values)

    def get(self, path: str, *options: str) -> ExecResult:
        """Ask the stand-in, as a client does that knows nothing of any proxy or credential."""
        url = f"https://{NAME}:{self.house.upstream.port}{path}"
        return self.run("curl", "-sS", "--max-time", "20", *options, url)
