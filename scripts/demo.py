"""What `make run` shows: Egress between a client that holds nothing and an API that wants a token.

Everything is real: `egress serve` with its rules, TLS on both sides, the audit log. Only the API is a
stand-in on loopback, so that no network is needed. With `REAL=1` and a GITHUB_TOKEN in the environment
the same is done with api.github.com.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.standin import NAME, StandIn

EGRESS = Path(sys.executable).with_name("egress")
GITHUB = "api.github.com"
TOKEN = "made-up-token-4f2a9c1e"
PATIENCE = 30.0

RULES = """\
version: 1

secrets:
  token:
    from: {source}
    hosts: ["{bound}"]

hosts:
  {host}:{where}
    allow:
      - {{ id: read, methods: [GET], paths: ["{path}/**"] }}
    deny:
      - {{ id: no-keys, paths: ["{path}/keys/**"] }}
    inject:
      - bearer: token
"""

LOOPBACK = """
    ports: [{port}]
    addresses: [127.0.0.1/32]    # the stand-in is on this machine"""


@dataclass(frozen=True, slots=True)
class Play:
    """Where the client goes."""

    host: str
    port: int
    path: str
    rules: str
    options: tuple[str, ...] = ()


class Stage:
    """The proxy that runs, and the client in front of it."""

    def __init__(self, folder: Path, play: Play, port: int) -> None:
        self.folder = folder
        self.play = play
        self.port = port
        self.ca = self._exported()

    def _exported(self) -> str:
        """The certificate that the sandbox trusts; nothing else of the proxy gets there."""
        ran = egress(self.folder, "ca", "export", "--state-dir", "state")
        return ran.stdout

    def ask(self, request: str) -> str:
        """Send a request as a client in the sandbox would, and return the answer."""
        play = self.play
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as tcp:
            tcp.sendall(connect(play.host, play.port))
            answer = until_blank_line(tcp)
            if " 200 " not in answer.partition("\r\n")[0]:
                return answer
            context = ssl.create_default_context(cadata=self.ca)
            with context.wrap_socket(tcp, server_hostname=play.host) as tls:
                tls.sendall(request.replace("\n", "\r\n").encode())
                return everything(tls)

    def knock(self, host: str) -> str:
        """Only ask for a connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as tcp:
            tcp.sendall(connect(host, 443))
            return until_blank_line(tcp)

    def audit(self) -> list[dict[str, object]]:
        """The lines of the audit log."""
        files = sorted((self.folder / "state/audit").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


# The steps --------------------------------------------------------------------------------------------


def play(stage: Stage, standin: StandIn | None) -> None:
    """Show it, step by step."""
    here = stage.play
    at = here.host if here.port == 443 else f"{here.host}:{here.port}"
    title("1. The rules: where the sandbox may go, and what is added on the way")
    show((stage.folder / "hosts.yaml").read_text())

    title("2. The sandbox asks, with a token that is worth nothing")
    request = f"GET {here.path} HTTP/1.1\nHost: {at}\nAuthorization: Bearer dummy\nConnection: close\n\n"
    label("the sandbox sends")
    show(request)
    answer = stage.ask(request)
    if standin is not None:
        label("the API receives: the real token, over TLS that was verified")
        show(standin.received[-1])
    label("the sandbox gets: the API repeats the token, and it does not come back")
    show(answer, most=8 if standin is None else 12)

    title("3. A request that a rule denies")
    denied = f"GET {here.path}/keys HTTP/1.1\nHost: {at}\nConnection: close\n\n"
    label("the sandbox sends")
    show(denied)
    label("the sandbox gets: an answer made for programs, and nothing was sent to the API")
    show(stage.ask(denied))
    label("egress explain tells the operator more")
    explain = ("explain", "--rules", "hosts.yaml", "GET", f"https://{at}{here.path}/keys")
    show(egress(stage.folder, *explain, fails=True).stdout)

    title("4. A host that no rule names: no name is resolved, nothing is dialled")
    label("CONNECT pastebin.example.org:443 is answered")
    show(stage.knock("pastebin.example.org").partition("\r\n")[0])


def show_audit(stage: Stage) -> None:
    """Show what is left when the proxy has stopped."""
    title("5. What is left for whoever reviews: one line each, chained and signed")
    for line in stage.audit():
        show("  ".join(facts(line)))
    print()
    label("egress log verify")
    show(egress(stage.folder, "log", "verify", "--dir", "state/audit", "--key", "audit.key").stdout)


def facts(line: Mapping[str, Any]) -> Iterator[str]:
    """The part of a line of the log that fits on a screen."""
    yield f"{line['seq']} {line['event']:8}"
    if line["event"] in ("exchange", "refusal"):
        yield f"{line['verdict']:5} {line['code']:12}"
        yield f"{line.get('method', '')} {line['host']}{line.get('path', '')}".strip()
    if line["event"] == "exchange":
        yield f"by {str(line['rule']).partition('#')[2]}"
        yield from (f"sent {each['secret']} in {each['slot']}" for each in line["injected"])
        yield from (f"masked {name} {count}x" for name, count in line["scrubbed"].items())


# The proxy --------------------------------------------------------------------------------------------


@contextmanager
def proxy(folder: Path, play: Play, environ: dict[str, str]) -> Iterator[Stage]:
    """`egress serve`, from its first to its last line."""
    (folder / "hosts.yaml").write_text(play.rules)
    command = [
        str(EGRESS),
        "serve",
        "--rules=hosts.yaml",
        "--listen=127.0.0.1:0",
        "--state-dir=state",
        "--runtime-dir=run",
        "--audit-key=audit.key",
        "--log-level=error",
        *play.options,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ, cwd=folder) as process:
        try:
            port = ready_port(process)
            yield Stage(folder, play, port)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def ready_port(process: subprocess.Popen[str]) -> int:
    """Wait for the line that says where it listens."""
    if process.stdout is not None:
        for line in process.stdout:
            if line.startswith("egress is ready"):
                address = line.partition("http://")[2].partition(",")[0]
                return int(address.rpartition(":")[2])
    raise SystemExit("demo: egress serve did not start")


def egress(folder: Path, *arguments: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command of egress; `fails` says that exit status 1 is what is wanted."""
    ran = subprocess.run([str(EGRESS), *arguments], capture_output=True, text=True, check=False, cwd=folder)
    if ran.returncode != int(fails):
        raise SystemExit(f"demo: egress {arguments[0]} failed\n{ran.stdout}{ran.stderr}")
    return ran


# What is read and shown -------------------------------------------------------------------------------


def connect(host: str, port: int) -> bytes:
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


def until_blank_line(sock: socket.socket) -> str:
    data = b""
    while b"\r\n\r\n" not in data and (more := sock.recv(4096)):
        data += more
    return data.decode("latin-1")


def everything(sock: socket.socket) -> str:
    data = b""
    while more := sock.recv(65536):
        data += more
    return data.decode("latin-1")


def is_terminal() -> bool:
    return sys.stdout.isatty()


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m\n" if is_terminal() else f"\n{text}\n")


def label(text: str) -> None:
    print(f"  {text}:")


def show(text: str, most: int = 40) -> None:
    """Print a text, indented; no line is wider than a terminal needs to be."""
    for line in text.replace("\r", "").rstrip().splitlines()[:most]:
        print(f"    {line[:200]}".rstrip())


# What is played ---------------------------------------------------------------------------------------


def with_standin(folder: Path) -> None:
    """The API is on loopback."""
    secret = folder / "token"
    secret.touch(mode=0o600)
    secret.write_text(TOKEN)
    with StandIn(folder) as standin:
        rules = RULES.format(
            source="file:~/token",
            bound=f"{NAME}:{standin.port}",
            host=NAME,
            where=LOOPBACK.format(port=standin.port),
            path="/v1/me",
        )
        options = (f"--upstream-ca={standin.ca}", f"--resolve={NAME}=127.0.0.1")
        here = Play(NAME, standin.port, "/v1/me", rules, options)
        with proxy(folder, here, {"PATH": os.environ["PATH"], "HOME": str(folder)}) as stage:
            play(stage, standin)
        show_audit(stage)


def with_github(folder: Path) -> None:
    """The API is the real one."""
    rules = RULES.format(source="env:GITHUB_TOKEN", bound=GITHUB, host=GITHUB, where="", path="/user")
    here = Play(GITHUB, 443, "/user", rules)
    environ = {name: os.environ[name] for name in ("PATH", "GITHUB_TOKEN")} | {"HOME": str(folder)}
    with proxy(folder, here, environ) as stage:
        play(stage, None)
    show_audit(stage)


def main() -> None:
    """Play it in a folder that is gone afterwards."""
    title("Egress: a client that holds nothing, an API that wants a token, and the proxy between them")
    with tempfile.TemporaryDirectory(prefix="egress-demo-") as folder:
        if os.environ.get("REAL"):
            if not os.environ.get("GITHUB_TOKEN"):
                raise SystemExit("demo: REAL=1 wants a GITHUB_TOKEN in the environment")
            with_github(Path(folder))
        else:
            with_standin(Path(folder))
    title("Next")
    print("  docs/tutorial.md       rules of your own, in ten steps")
    print("  docs/guides/serve.md   the proxy in front of a real sandbox")


if __name__ == "__main__":
    main()
