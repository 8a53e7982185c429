"""The proxies that are compared: how each is started, and what its clients have to trust.

A further one is a subclass of `Contestant` and a line in `CONTESTANTS`. The first is the measure: 1.0.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.proxy.process import PROXY, NotReadyError, free_port, start, stop, wait_for_port
from bench.proxy.setting import API, CREDENTIAL, EVENTS, HTTP2, NAMES, SECRET, TUNNEL, Setting

BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Running:
    """A contestant that is up."""

    pid: int
    port: int
    ca: Path


class Contestant:
    """One proxy. `only` names the rows it takes part in; None is all."""

    name: str
    only: frozenset[str] | None = None

    def prepare(self, setting: Setting, folder: Path) -> None:
        """Write what it needs into its folder."""

    def command(self, setting: Setting, folder: Path, port: int) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def ca(self, folder: Path) -> Path:
        """The certificate its clients trust; asked for when it is up."""
        raise NotImplementedError

    @contextmanager
    def running(self, setting: Setting) -> Iterator[Running]:
        """Start it and wait until it accepts; NotReadyError when it does not."""
        folder = setting.folder / re.sub(r"\W+", "-", self.name)
        if not folder.exists():
            folder.mkdir()
            self.prepare(setting, folder)
        port = free_port()
        log = folder / "proxy.log"
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        command = self.command(setting, folder, port)
        process = start(command, PROXY, log=log, env=kept | self.environment())
        try:
            wait_for_port(process, port, log)
            yield Running(process.pid, port, self.ca(folder))
        finally:
            stop(process)


class Stock(Contestant):
    """mitmdump as it comes, with `stock_addon`."""

    name = "stock mitmdump"
    options: tuple[str, ...] = ()

    def command(self, setting: Setting, folder: Path, port: int) -> list[str]:
        addon = Path(__file__).with_name("stock_addon.py")
        return [
            str(BIN / "mitmdump"),
            "-q",
            "--listen-host=127.0.0.1",
            f"--listen-port={port}",
            f"--ignore-hosts=:{setting.ports.tunnel}$",
            f"--set=confdir={folder}",
            f"--set=ssl_verify_upstream_trusted_ca={setting.ca}",
            *self.options,
            f"-s{addon}",
        ]

    def environment(self) -> dict[str, str]:
        return {"BENCH_CREDENTIAL": CREDENTIAL, "BENCH_NAMES": f"{API} {HTTP2}"}

    def ca(self, folder: Path) -> Path:
        return folder / "mitmproxy-ca-cert.pem"


class StreamingStock(Stock):
    """The same, told to pass large bodies on as they come."""

    name = "stock, streaming"
    only = frozenset({"download"})
    options = ("--set=stream_large_bodies=1m",)


class Egress(Contestant):
    """This project, with a rule file that does the same as the add-on."""

    name = "egress"

    def prepare(self, setting: Setting, folder: Path) -> None:
        secret = folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(SECRET, encoding="ascii")
        ports = setting.ports
        rules = f"""\
version: 1
secrets:
  bench: {{ from: "file:{secret}", hosts: ["{API}:{ports.api}", "{HTTP2}:{ports.http2}"] }}
hosts:
  {API}: {{ ports: [{ports.api}], addresses: [127.0.0.1/32], allow: all, inject: [{{ bearer: bench }}] }}
  {HTTP2}:
    ports: [{ports.http2}]
    http2: true
    addresses: [127.0.0.1/32]
    allow: all
    inject: [{{ bearer: bench }}]
  {EVENTS}: {{ ports: [{ports.events}], addresses: [127.0.0.1/32] }}
  {TUNNEL}: {{ ports: [{ports.tunnel}], addresses: [127.0.0.1/32], intercept: never }}
"""
        (folder / "hosts.yaml").write_text(rules, encoding="utf-8")

    def command(self, setting: Setting, folder: Path, port: int) -> list[str]:
        found = [
            *self.program(),
            "serve",
            f"--rules={folder / 'hosts.yaml'}",
            f"--listen=127.0.0.1:{port}",
            f"--state-dir={folder / 'state'}",
            f"--runtime-dir={folder / 'run'}",
            f"--upstream-ca={setting.ca}",
        ]
        return found + [f"--resolve={name}=127.0.0.1" for name in NAMES]

    def ca(self, folder: Path) -> Path:
        command = [*self.program(), "ca", "export", f"--state-dir={folder / 'state'}"]
        done = subprocess.run(command, capture_output=True, check=False, timeout=30)
        if done.returncode:
            raise NotReadyError(f"`egress ca export` ended with status {done.returncode}")
        path = folder / "ca.pem"
        path.write_bytes(done.stdout)
        return path

    def program(self) -> list[str]:
        return [str(BIN / "egress")]


CONTESTANTS: tuple[Contestant, ...] = (Stock(), StreamingStock(), Egress())
