"""The stage, the rounds, and the table."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.neighbours import hostile  # noqa: F401 - it loads all kinds
from bench.neighbours.neighbour import KINDS
from bench.neighbours.priority import go_at_once, go_before_others
from bench.neighbours.setting import (
    BAD,
    BAD_HTTP2,
    CLEAR,
    GOOD,
    NAMES,
    NEIGHBOUR,
    SECRET,
    TUNNEL,
    VICTIM,
    Stage,
)
from bench.proxy.process import (
    OTHERS,
    PROXY,
    NotReadyError,
    forget_peak,
    free_port,
    last_line,
    resident,
    start,
    stop,
    wait_for_port,
)
from egress.runtime.proxy_client import ControlProxyClient, SandboxListener
from tests.proxy.lab.certificates import Certificates

MAX_P99_RATIO = 3.0
MAX_MEMORY_MB = 256.0

RULES = """\
version: 1
secrets:
  bench:
    from: "file:{folder}/secret"
    hosts: ["{bad}:{ports.bad}", "{good}:{ports.good}", "{bad2}:{ports.bad_http2}"]
hosts:
  {good}: {{ ports: [{ports.good}], addresses: [127.0.0.1/32], allow: all, inject: [{{ bearer: bench }}] }}
  {bad}:
    ports: [{ports.bad}]
    addresses: [127.0.0.1/32]
    allow:
      - {{ id: all, websocket: true }}
    deny:
      - {{ id: no, paths: [/denied] }}
    inject: [{{ bearer: bench }}]
  {bad2}:
    ports: [{ports.bad_http2}]
    http2: true
    addresses: [127.0.0.1/32]
    allow: all
    deny:
      - {{ id: no, paths: [/denied] }}
    inject: [{{ bearer: bench }}]
  {tunnel}: {{ ports: [{ports.tunnel}], addresses: [127.0.0.1/32], intercept: never }}
  {clear}: {{ ports: [], http: [{ports.clear}], addresses: [127.0.0.1/32] }}
"""


@dataclass(frozen=True, slots=True)
class Ports:
    good: int
    bad: int
    bad_http2: int
    tunnel: int
    clear: int


@dataclass(frozen=True, slots=True)
class Pace:
    """How long each measurement takes, and how long a neighbour may prepare."""

    quiet: float
    beside: float
    warm_up: float


FULL, QUICK = Pace(3.0, 5.0, 1.0), Pace(1.0, 2.0, 0.7)


class Proxy:
    """A proxy with two sandboxes, and its process."""

    def __init__(self, stage: Stage, process: subprocess.Popen[bytes], steps: Path) -> None:
        self.stage = stage
        self.process = process
        self._steps = steps

    def begin(self) -> None:
        """Forget what was measured so far."""
        forget_peak(self.process.pid)
        os.kill(self.process.pid, signal.SIGUSR1)

    def steps(self) -> dict[str, float]:
        """What the loop did since."""
        self._steps.unlink(missing_ok=True)
        os.kill(self.process.pid, signal.SIGUSR2)
        deadline = time.monotonic() + 20
        while not self._steps.exists():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise NotReadyError("the proxy does not say what it has measured")
            time.sleep(0.02)
        found: dict[str, float] = json.loads(self._steps.read_text())
        return found


@contextlib.contextmanager
def staged() -> Iterator[Proxy]:
    """Start upstreams and proxy."""
    with tempfile.TemporaryDirectory(prefix="bench-neighbours-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        ports = Ports(*(free_port() for _ in range(5)))
        certificates = Certificates()
        chain, key = certificates.write_leaf(folder, *NAMES)
        certificates.write_ca(folder / "upstream-ca.pem")
        # One process for the victim's upstream, another for those that mean harm.
        _upstreams(stack, folder, chain, key, [ports.good, free_port(), free_port(), free_port()], "good")
        _upstreams(stack, folder, chain, key, [ports.bad, ports.bad_http2, ports.tunnel, ports.clear], "bad")
        yield _proxy(stack, folder, ports)


def _upstreams(
    stack: contextlib.ExitStack, folder: Path, chain: Path, key: Path, ports: list[int], name: str
) -> None:
    log = folder / f"{name}.log"
    command = [sys.executable, "-m", "bench.neighbours.upstreams", json.dumps(ports), str(chain), str(key)]
    process = start(command, OTHERS, log=log)
    stack.callback(stop, process)
    wait_for_port(process, ports[-1], log)
    if name == "good":
        go_at_once(process.pid)
    else:
        go_before_others(process.pid)


def _proxy(stack: contextlib.ExitStack, folder: Path, ports: Ports) -> Proxy:
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_text(SECRET, encoding="ascii")
    text = RULES.format(
        folder=folder, ports=ports, good=GOOD, bad=BAD, bad2=BAD_HTTP2, tunnel=TUNNEL, clear=CLEAR
    )
    rules = folder / "hosts.yaml"
    rules.write_text(text, encoding="utf-8")
    port, log, steps = free_port(), folder / "proxy.log", folder / "steps.json"
    command = [
        *(sys.executable, "-m", "bench.neighbours.measured_serve", "serve", "--handover"),
        *(f"--rules={rules}", f"--listen=127.0.0.1:{port}", f"--sandbox={NEIGHBOUR}"),
        *(f"--state-dir={folder / 'state'}", f"--runtime-dir={folder / 'run'}"),
        f"--upstream-ca={folder / 'upstream-ca.pem'}",
        *(f"--resolve={name}=127.0.0.1" for name in NAMES),
    ]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    process = start(command, PROXY, log=log, env=kept | {"EGRESS_BENCH_STEPS": str(steps)})
    stack.callback(stop, process)
    go_at_once(process.pid)
    wait_for_port(process, port, log)
    victim, names = _second_sandbox(stack, folder)
    stage = Stage(
        folder=str(folder),
        proxy=port,
        victim_proxy=victim,
        names=names,
        good=ports.good,
        bad=ports.bad,
        bad_http2=ports.bad_http2,
        tunnel=ports.tunnel,
        clear=ports.clear,
        ca=str(_exported(folder)),
        victim_ca=str(folder / "victim-ca.pem"),
        rules=str(rules),
        control=str(folder / "run" / "control.sock"),
    )
    return Proxy(stage, process, steps)


def _second_sandbox(stack: contextlib.ExitStack, folder: Path) -> tuple[int, int]:
    """Admit the victim, and give the neighbour a name server; return the ports of both."""
    client = ControlProxyClient(folder / "run")
    admitted = client.admit(VICTIM)
    (folder / "victim-ca.pem").write_text(str(admitted.authority), encoding="ascii")
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
    port = int(listening.getsockname()[1])
    client.hand_over(VICTIM, [SandboxListener("proxy", port, listening)])
    client.admit("asker")
    questions = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    questions.bind(("127.0.0.1", 0))
    names = int(questions.getsockname()[1])
    client.hand_over("asker", [SandboxListener("dns-udp", names, questions)])
    return port, names


def _exported(folder: Path) -> Path:
    program = Path(sys.executable).parent / "egress"
    command = [str(program), "ca", "export", f"--sandbox={NEIGHBOUR}", f"--state-dir={folder / 'state'}"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=30)
    if done.returncode:
        raise NotReadyError(f"`egress ca export` ended with status {done.returncode}: {done.stderr!r}")
    path = folder / "ca.pem"
    path.write_bytes(done.stdout)
    return path


# Rounds -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """What one neighbour did."""

    kind: str
    quiet: dict[str, float]
    beside: dict[str, float]
    steps: dict[str, float]
    memory: float
    error: str = ""

    def ratio(self, name: str) -> float:
        return self.beside[f"{name}_p99"] / self.quiet[f"{name}_p99"]


def _visit(stage: Stage, seconds: float) -> dict[str, float]:
    log = Path(stage.folder) / "victim.log"
    process = start(
        [sys.executable, "-m", "bench.neighbours.victim", stage.text(), str(seconds)], OTHERS, log=log
    )
    go_at_once(process.pid)
    try:
        status = process.wait(seconds * 10 + 60)
    except subprocess.TimeoutExpired:
        raise NotReadyError("the victim did not come to an end") from None
    finally:
        stop(process)
    if status:
        raise NotReadyError(last_line(log))
    found: dict[str, float] = json.loads(last_line(log))
    return found


def measure(proxy: Proxy, kind: str, pace: Pace) -> Found:
    """The victim alone, then beside this neighbour."""
    stage, pid = proxy.stage, proxy.process.pid
    quiet = _visit(stage, pace.quiet)
    idle = resident(pid)
    log = Path(stage.folder) / "hostile.log"
    rules = Path(stage.rules).read_text(encoding="utf-8")
    proxy.begin()
    process = start([sys.executable, "-m", "bench.neighbours.hostile", stage.text(), kind], OTHERS, log=log)
    go_before_others(process.pid)
    try:
        time.sleep(pace.warm_up)
        beside = _visit(stage, pace.beside)
        if process.poll() is not None:
            raise NotReadyError(f"the neighbour has ended: {last_line(log)}")
        steps = proxy.steps()
        memory = resident(pid, "VmHWM") - idle
    finally:
        stop(process)
        Path(stage.rules).write_text(rules, encoding="utf-8")
    return Found(kind, quiet, beside, steps, memory)


def table(*, quick: bool = False, kinds: Sequence[str] = ()) -> str:
    """Measure every kind, or those whose names hold one of these words."""
    pace = QUICK if quick else FULL
    wanted = [kind for kind in KINDS if not kinds or any(word in kind for word in kinds)]
    rows = [
        "| neighbour | kept: p99 | x quiet | new: p99 | x quiet | MB | busy | longest step | collector | |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for kind in wanted:
        try:
            # A proxy for each: what one neighbour leaves behind is not the next one's.
            with staged() as proxy:
                _visit(proxy.stage, 0.5)
                rows.append(_row(measure(proxy, kind, pace)))
        except NotReadyError as error:
            rows.append(f"| {kind} | not measured: {error} |")
        print(rows[-1], file=sys.stderr, flush=True)
    return "\n".join(rows)


def _row(found: Found) -> str:
    kept, new = found.ratio("kept"), found.ratio("new")
    is_good = max(kept, new) <= MAX_P99_RATIO and found.memory <= MAX_MEMORY_MB
    cells = [
        found.kind,
        f"{found.beside['kept_p99']:.1f}",
        f"{kept:.1f}",
        f"{found.beside['new_p99']:.1f}",
        f"{new:.1f}",
        f"{found.memory:.0f}",
        f"{found.steps['busy_s'] / found.steps['elapsed_s']:.2f}",
        f"{found.steps['p999_ms']:.1f}",
        f"{found.steps['collector_ms']:.0f}",
        "" if is_good else "MISSED",
    ]
    return f"| {' | '.join(cells)} |"
