"""Upstream, cluster and gateway, each a process; the gateway has core 0 to itself where there are two."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.kubernetes.setting import GATEWAY, MARKERS, PROFILES, Gateway
from bench.neighbours.priority import go_at_once, go_before_others
from bench.proxy.contestants import BIN
from bench.proxy.process import OTHERS, PROXY, START_TIMEOUT, NotReadyError, free_port, last_line, start, stop
from bench.proxy.setting import API, SECRET, Setting
from bench.proxy.upstream import upstream

RULES = """\
version: 1
secrets:
  bench: {{ from: "file:{folder}/secret", hosts: ["{api}:{port}"] }}
profiles:
  default: {{ hosts: [{api}] }}
  {even}: {{ hosts: [{api}, {even_host}] }}
  {odd}: {{ hosts: [{api}, {odd_host}] }}
hosts:
  {api}: {{ ports: [{port}], addresses: [127.0.0.1/32], allow: all, inject: [{{ bearer: bench }}] }}
  {even_host}: {{ http: [80], methods: [DELETE] }}
  {odd_host}: {{ http: [80], methods: [DELETE] }}
"""
POD_PORTS = (f"--transparent={GATEWAY}", f"--dns={GATEWAY}:53")


@contextlib.contextmanager
def staged(*, serves_pods: bool = False) -> Iterator[Gateway]:
    """Start everything; the gateway knows an empty cluster.

    `serves_pods`: it also listens at the ports that a gate dials, 443 and 53.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="bench-kubernetes-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        setting = stack.enter_context(upstream(folder))
        api_port = _cluster(stack, folder)
        yield _gateway(stack, folder, setting, api_port, POD_PORTS if serves_pods else ())


def _cluster(stack: contextlib.ExitStack, folder: Path) -> int:
    log = folder / "cluster.log"
    process = start([sys.executable, "-m", "bench.kubernetes.cluster", str(folder)], OTHERS, log=log)
    stack.callback(stop, process)
    go_before_others(process.pid)
    _wait_for(folder / "port", process, log)
    return int((folder / "port").read_text("ascii"))


def _gateway(
    stack: contextlib.ExitStack, folder: Path, setting: Setting, api_port: int, more: tuple[str, ...] = ()
) -> Gateway:
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_text(SECRET, encoding="ascii")
    rules = RULES.format(
        folder=folder,
        api=API,
        port=setting.ports.api,
        even=PROFILES[0],
        odd=PROFILES[1],
        even_host=MARKERS[0],
        odd_host=MARKERS[1],
    )
    (folder / "hosts.yaml").write_text(rules, encoding="utf-8")
    port, log = free_port(), folder / "gateway.log"
    command = [
        *(str(BIN / "egress"), "serve", "--network", "--kubernetes"),
        *(f"--rules={folder / 'hosts.yaml'}", f"--listen={GATEWAY}:{port}"),
        *(f"--service-account={folder / 'account'}", f"--upstream-ca={setting.ca}"),
        *(f"--state-dir={folder / 'state'}", f"--runtime-dir={folder / 'run'}"),
        *(f"--resolve={name}=127.0.0.1" for name in (API, *MARKERS)),
        *more,
    ]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    place = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api_port)}
    process = start(command, PROXY, log=log, env=kept | place | {"HOSTNAME": "egress-proxy-0"})
    stack.callback(stop, process)
    go_at_once(process.pid)
    _wait_for(folder / "run" / "control.sock", process, log)
    gateway = Gateway(str(folder), process.pid, port, setting.ports.api)
    _export(gateway)
    return gateway


def _export(gateway: Gateway) -> None:
    command = [str(BIN / "egress"), "ca", "export", f"--state-dir={gateway.folder}/state"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=30)
    if done.returncode:
        raise NotReadyError(f"`egress ca export` ended with status {done.returncode}: {done.stderr!r}")
    gateway.ca.write_bytes(done.stdout)


def _wait_for(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise NotReadyError(f"{path.name} did not appear: {last_line(log)}")
        time.sleep(0.02)
