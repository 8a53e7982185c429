"""What `egress run -- true` costs beside the same command without Egress, and where the time goes.

Each way is tried in turn with its plain twin in every round: a machine that is busy makes both longer. The
best of the rounds counts. Processor time is that of all processes that the command started, without the
engine's. The profile comes from one more run under strace, whose own cost is in its times.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images.demo import demo_image
from egress.runtime.errors import EngineUnavailableError, SandboxError
from egress.runtime.namespace import kernel_support

Row = tuple[str, float, str, float | None]
Environ = Mapping[str, str]

ROUNDS = 5
RULES = "version: 1\nhosts:\n  api.example.com: {}\n"
PLAIN_NAMESPACES = [
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--ipc",
    "--uts",
    "--net",
    "--fork",
    "true",
]
TARGETS = {"namespace": 0.8, "docker": 1.2, "up": 0.4}
"""Seconds of a run on two quiet cores."""

STAGES = (
    ("the proxy is started", r"execve\(.*serve"),
    ("the sandbox is asked for at the proxy", r"control\.sock"),
    ("the command begins", r'execve\("[^"]*/true"'),
    ("the proxy is told to end", r"kill\(\d+, SIGTERM\)"),
)
"""What is taken for the end of each stage: the first such call."""


@dataclass(slots=True)
class Timing:
    """The rounds of one command."""

    walls: list[float] = field(default_factory=list)
    processors: list[float] = field(default_factory=list)

    def add(self, words: list[str], environ: Environ) -> None:
        """Run it once more."""
        before, began = _processor_seconds(), time.perf_counter()
        subprocess.run(words, env=environ, check=True, capture_output=True)
        self.walls.append(time.perf_counter() - began)
        self.processors.append(_processor_seconds() - before)


def run() -> list[Row]:
    with _place() as (rules, environ):
        return [row for rows in (_namespaces, _containers) for row in rows(rules, environ)]


@contextmanager
def _place() -> Iterator[tuple[Path, Environ]]:
    """A home of its own, with rules."""
    with tempfile.TemporaryDirectory(prefix="egress-bench-") as folder:
        home = Path(folder)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("EGRESS_")}
        for name in ("CONFIG_HOME", "STATE_HOME", "RUNTIME_DIR"):
            place = home / name.lower()
            place.mkdir(mode=0o700)
            environ[f"XDG_{name}"] = str(place)
        rules = home / "rules" / "hosts.yaml"
        rules.parent.mkdir()
        rules.write_text(RULES, encoding="utf-8")
        yield rules, environ


def _namespaces(rules: Path, environ: Environ) -> list[Row]:
    try:
        kernel_support.check()
    except SandboxError as error:
        print(f"  namespaces: {error.message}; {error.hint}", file=sys.stderr)
        return []
    plain = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]
    if shutil.which("bwrap") is None:
        plain = ["unshare", *PLAIN_NAMESPACES]
    return _compared("namespace", f"{plain[0]} of true", plain, rules, environ)


def _containers(rules: Path, environ: Environ) -> list[Row]:
    try:
        engine = DockerEngine()
    except EngineUnavailableError as error:
        print(f"  containers: {error.message}; {error.hint}", file=sys.stderr)
        return []
    with_image = demo_image(engine, print)
    engine.close()
    plain = ["docker", "run", "--rm", "--entrypoint", "true", with_image]
    return _compared("docker", "docker run of true", plain, rules, environ)


def _compared(kind: str, name: str, plain: list[str], rules: Path, environ: Environ) -> list[Row]:
    """A run with its own proxy, a run at `egress up`, and the plain twin."""
    own = _egress("run", "-q", "--runtime", kind, "--rules", str(rules), "--", "true")
    at_up = _egress("run", "-q", "--", "true")
    twin, alone, shared = Timing(), Timing(), Timing()
    # Once without counting: images, caches and byte code are there afterwards.
    subprocess.run(own, env=environ, check=True, capture_output=True)
    for _ in range(ROUNDS):
        twin.add(plain, environ)
        alone.add(own, environ)
    with _served(kind, rules, environ):
        for _ in range(ROUNDS):
            # A container is kept ready, and has to be made again.
            time.sleep(1.5)
            shared.add(at_up, environ)
    base = min(twin.walls)
    return [
        (f"{name}", base * 1000, "ms", None),
        (f"egress run --runtime {kind} of true", min(alone.walls) * 1000, "ms", TARGETS[kind] * 1000),
        ("  a multiple of it", min(alone.walls) / base, "x", None),
        ("  processor time of the command and its proxy", min(alone.processors) * 1000, "ms", None),
        (f"egress run at egress up --runtime {kind}", min(shared.walls) * 1000, "ms", TARGETS["up"] * 1000),
        ("  a multiple of it", min(shared.walls) / base, "x", None),
        ("  processor time of the command", min(shared.processors) * 1000, "ms", None),
        *_profile(own, environ),
    ]


@contextmanager
def _served(kind: str, rules: Path, environ: Environ) -> Iterator[None]:
    subprocess.run(
        _egress("up", "--runtime", kind, "--rules", str(rules)), env=environ, check=True, capture_output=True
    )
    try:
        yield
    finally:
        subprocess.run(_egress("down"), env=environ, check=True, capture_output=True)


def _profile(words: list[str], environ: Environ) -> list[Row]:
    """The stages of one run."""
    if shutil.which("strace") is None:
        print("  no profile: strace is not installed", file=sys.stderr)
        return []
    with tempfile.NamedTemporaryFile("r", prefix="egress-bench-") as trace:
        calls = "trace=execve,connect,kill,exit_group"
        told = ["strace", "-f", "--seccomp-bpf", "-ttt", "-s", "500", "-e", calls, "-o", trace.name]
        if subprocess.run([*told, *words], env=environ, check=False, capture_output=True).returncode:
            print("  no profile: strace may not trace", file=sys.stderr)
            return []
        lines = [line.split(maxsplit=2) for line in trace if "ENOENT" not in line]
    moments = [(float(moment), call) for _, moment, call in lines]
    return list(_stages(moments))


def _stages(moments: list[tuple[float, str]]) -> Iterator[Row]:
    before = moments[0][0]
    for name, pattern in STAGES:
        at = next((moment for moment, call in moments if re.search(pattern, call)), None)
        if at is not None:
            yield (f"  until {name}", (at - before) * 1000, "ms", None)
            before = at
    yield ("  until its end", (moments[-1][0] - before) * 1000, "ms", None)


def _egress(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "egress", *words]


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
