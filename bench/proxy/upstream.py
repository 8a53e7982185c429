"""The upstream behind the proxies: nginx where there is one, the tests' own otherwise.

nginx cannot send events by the clock, so those always come from the tests' upstream. Everything runs from
a temporary folder, as whoever runs the benchmark, on loopback.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.proxy.process import OTHERS, free_port, start, stop, wait_for_port
from bench.proxy.setting import BIG, CREDENTIAL, MEBIBYTE, NAMES, Ports, Setting
from tests.proxy.lab.certificates import Certificates

NGINX = """
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.err;
events {{ worker_connections 2048; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  default_type application/json;
  sendfile on;
  tcp_nodelay on;
  keepalive_timeout 300s;
  keepalive_requests 100000000;
  ssl_protocols TLSv1.3;
  ssl_certificate {chain};
  ssl_certificate_key {key};
  ssl_session_cache shared:bench:8m;
  root {folder}/www;
  server {{
    listen 127.0.0.1:{ports.api} ssl backlog=2048;
    if ($http_authorization != "{credential}") {{ return 401; }}
  }}
  server {{
    listen 127.0.0.1:{ports.http2} ssl http2 backlog=2048;
    if ($http_authorization != "{credential}") {{ return 401; }}
  }}
  server {{
    listen 127.0.0.1:{ports.tunnel} ssl backlog=2048;
  }}
}}
"""


@contextmanager
def upstream(folder: Path) -> Iterator[Setting]:
    """Start everything that answers; the setting says where it is."""
    certificates = Certificates()
    chain, key = certificates.write_leaf(folder, *NAMES)
    ca = certificates.write_ca(folder / "upstream-ca.pem")
    ports = Ports(*(free_port() for _ in range(4)))
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    with ExitStack() as stack:
        if nginx:
            process, log = _start_nginx(nginx, folder, chain, key, ports)
            stack.callback(stop, process)
            wait_for_port(process, ports.tunnel, log)
        mine = (ports.events,) if nginx else (ports.api, ports.http2, ports.tunnel, ports.events)
        _start_lab(stack, folder, chain, key, mine)
        kind = _version(nginx) if nginx else "the tests' own, in Python: nginx is missing (apt install nginx)"
        yield Setting(folder, ca, ports, "/100mb" if nginx else f"/bytes?n={BIG}", kind)


def _start_nginx(
    nginx: str, folder: Path, chain: Path, key: Path, ports: Ports
) -> tuple[subprocess.Popen[bytes], Path]:
    root = folder / "www"
    root.mkdir()
    body = json.dumps({"items": [{"id": number, "name": f"item {number}"} for number in range(10)]})
    (root / "small").write_text(body, encoding="ascii")
    with (root / "100mb").open("wb") as file:
        for _ in range(BIG // MEBIBYTE):
            file.write(os.urandom(MEBIBYTE))
    # Started by root, nginx would serve as another user, who cannot look into the folder.
    user = f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""
    text = NGINX.format(user=user, folder=folder, chain=chain, key=key, ports=ports, credential=CREDENTIAL)
    config = folder / "nginx.conf"
    config.write_text(text, encoding="utf-8")
    log = folder / "nginx.log"
    command = [nginx, "-p", str(folder), "-c", str(config), "-e", str(folder / "nginx.err")]
    return start(command, OTHERS, log=log), log


def _start_lab(stack: ExitStack, folder: Path, chain: Path, key: Path, ports: tuple[int, ...]) -> None:
    for number, port in enumerate(ports):
        log = folder / f"lab-{port}.log"
        kind = "http2" if len(ports) > 1 and number == 1 else "http1"
        command = [sys.executable, "-m", "bench.proxy.serve", kind, str(port), str(chain), str(key)]
        process = start(command, OTHERS, log=log)
        stack.callback(stop, process)
        wait_for_port(process, port, log)


def _version(nginx: str) -> str:
    said = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=False).stderr
    return said.rpartition(": ")[2].strip() or "nginx"
