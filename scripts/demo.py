"""What `make run` shows: a sandbox that holds nothing, an API that wants a token, and Egress between them.

Everything is real: the sandbox (a container where an engine answers, else Linux namespaces), the proxy with
its rules, TLS on both sides, the audit log. Only the API is a stand-in on loopback, so that no network is
needed. With `REAL=1` and a GITHUB_TOKEN in the environment the same is done with api.github.com.

The audit log and the rules outlive the play, in a folder. On a terminal the review page of them is served at
the end, until Ctrl-C; elsewhere the command for it is said. `REVIEW=no` is for terminals of nobody.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egress.cli.sandboxes import fleet_session
from egress.cli.stand_in_api import NAME, StandInApi
from egress.errors import EgressError
from egress.fleet import SandboxFleet, open_fleet
from egress.runtime.environ import read_requested
from egress.runtime.spec import Command, Spec

EGRESS = Path(sys.executable).with_name("egress")
GITHUB = "api.github.com"
TOKEN = "made-up-token-4f2a9c1e"
BOX = "demo"
KEPT = Path(".cache/demo")
"""Where the log of the last play is, beside the rules that it was played by."""
NOWHERE = "203.0.113.7"
"""An address that belongs to documentation: nobody is there."""

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

CURL = """\
import sys, urllib.request, urllib.error
try: sys.stdout.write(urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={
    "Authorization": "Bearer dummy"}), timeout=20).read().decode())
except urllib.error.HTTPError as error: sys.stdout.write(error.read().decode())
"""
"""For a machine without curl."""

SEARCH = """\
env | grep -c 'made[-]up'
cat /proc/[0-9]*/environ 2>/dev/null | grep -c 'made[-]up'
grep -rs 'made[-]up' /etc /home /root /run /srv /tmp /var /workspace | grep -c .
"""


@dataclass(frozen=True, slots=True)
class DemoScenario:
    """Where the sandbox goes."""

    host: str
    port: int
    path: str
    beyond: str
    """A path there that no rule is about."""
    rules: str
    settings: Mapping[str, str]

    @property
    def root(self) -> str:
        return f"https://{self.host}{'' if self.port == 443 else f':{self.port}'}"

    @property
    def url(self) -> str:
        return f"{self.root}{self.path}"


class DemoSandbox:
    """The sandbox that is there, and the proxy behind it."""

    def __init__(self, folder: Path, play: DemoScenario, fleet: SandboxFleet) -> None:
        self.folder = folder
        self.play = play
        self._fleet = fleet
        self._has_curl = fleet.exec(BOX, Command(argv=("curl", "--version"))).exit_code == 0

    def run(self, line: str) -> str:
        """Run a line of shell in the sandbox; returns what it prints, errors too."""
        result = self._fleet.exec(BOX, Command(argv=("sh", "-c", f"exec 2>&1\n{line}"), timeout=60))
        return result.text

    def get(self, url: str, options: str = "") -> tuple[str, str]:
        """The line that a person would type to ask for this, and what it prints."""
        if self._has_curl:
            line = f"curl -sS {options}{url}"
            return line, self.run(line)
        return f"python3 ask.py {url}", self.run(f"python3 -c '{CURL}' {url}")


# The steps --------------------------------------------------------------------------------------------


def play(stage: DemoSandbox, standin: StandInApi | None) -> None:
    """Show it, step by step."""
    here = stage.play
    title("1. The rules: where the sandbox may go, and what is added on the way")
    show((stage.folder / "hosts.yaml").read_text())

    title("2. The sandbox asks, with a token that is worth nothing")
    line, answer = stage.get(here.url, "-H 'Authorization: Bearer dummy' ")
    typed(line)
    show(answer, most=8 if standin is None else 12)
    if standin is not None:
        label("the API received the real one, over TLS that was verified; what it repeated was masked")
        show(standin.received[-1])

    title("3. It looks for the token: in its environment, in that of all processes, in its files")
    for line, found in zip(SEARCH.splitlines(), stage.run(SEARCH).splitlines(), strict=True):
        typed(line)
        show(found)

    title("4. A request that a rule denies: an answer made for programs, and nothing was sent")
    line, answer = stage.get(f"{here.url}/keys")
    typed(line)
    show(answer)
    label("egress explain tells the operator more")
    show(egress(stage.folder, "explain", "--rules", "hosts.yaml", "GET", f"{here.url}/keys", fails=True))

    title("5. A host that no rule names, and a way around the proxy")
    line, answer = stage.get("https://pastebin.example.org/")
    typed(line)
    show(answer)
    around = f"python3 -c \"import socket; socket.create_connection(('{NOWHERE}', 443), 3)\" 2>&1 | tail -n 1"
    typed(around)
    show(stage.run(around))

    title("6. A request that nobody thought of: whoever reviews may want to allow it")
    line, answer = stage.get(f"{here.root}{here.beyond}")
    typed(line)
    show(answer)


def show_audit(folder: Path) -> None:
    """Show what is left when the proxy has stopped."""
    title("7. What is left for whoever reviews: one line each, chained and signed")
    for line in audit(folder):
        show("  ".join(facts(line)))
    print()
    label("egress log verify")
    show(egress(folder, "log", "verify", "--dir", "state/audit", "--key", "state/audit.key"))


def audit(folder: Path) -> list[dict[str, object]]:
    """The lines of the audit log."""
    files = sorted((folder / "state/audit").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def facts(line: Mapping[str, Any]) -> Iterator[str]:
    """The part of a line of the log that fits on a screen."""
    yield f"{line['seq']} {line['event']:8}"
    if line["event"] in ("exchange", "refusal"):
        yield f"{line['verdict']:5} {line['code']:12}"
        yield f"{line.get('method', '')} {line['host']}{line.get('path', '')}".strip()
    if line["event"] == "exchange":
        yield f"by {line['rule'].partition('#')[2]}" if line["rule"] else "by no rule"
        yield from (f"sent {each['secret']} in {each['slot']}" for each in line["injected"])
        yield from (f"masked {name} {count}x" for name, count in line["scrubbed"].items())


# The sandbox ------------------------------------------------------------------------------------------


@contextmanager
def sandbox(folder: Path, play: DemoScenario) -> Iterator[DemoSandbox]:
    """A sandbox behind a proxy of its own, from the first to the last line."""
    (folder / "hosts.yaml").write_text(play.rules)
    os.environ.update(play.settings)
    places = {"HOME": folder, "EGRESS_STATE_DIR": folder / "state", "EGRESS_RUNTIME_DIR": folder / "run"}
    os.environ.update({name: str(place) for name, place in places.items()})
    # By its short name, which is the one that the log has for it, wherever it is reviewed.
    with chdir(folder), open_fleet(rules=[Path("hosts.yaml")]) as fleet:
        label(f"this machine: {fleet.about.kind} ({fleet.about.why})")
        image = fleet_session.image(fleet.about, None, label)
        env = fleet_session.variables(fleet.about, read_requested([]))
        fleet.create(Spec(name=BOX, image=image, env=env))
        fleet.start(BOX)
        yield DemoSandbox(folder, play, fleet)


def egress(folder: Path, *arguments: str, fails: bool = False) -> str:
    """Run a command of egress; `fails` says that exit status 1 is what is wanted."""
    ran = subprocess.run([str(EGRESS), *arguments], capture_output=True, text=True, check=False, cwd=folder)
    if ran.returncode != int(fails):
        raise SystemExit(f"demo: egress {arguments[0]} failed\n{ran.stdout}{ran.stderr}")
    return ran.stdout


# What is shown ----------------------------------------------------------------------------------------


def is_terminal() -> bool:
    return sys.stdout.isatty()


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m\n" if is_terminal() else f"\n{text}\n", flush=True)


def label(text: str) -> None:
    print(f"  {text}", flush=True)


def typed(line: str) -> None:
    print(f"    $ {line}", flush=True)


def show(text: str, most: int = 40) -> None:
    """Print a text, indented; no line is wider than a terminal needs to be."""
    for line in text.replace("\r", "").rstrip().splitlines()[:most]:
        print(f"    {line[:200]}".rstrip(), flush=True)


# What is played ---------------------------------------------------------------------------------------


def with_standin(folder: Path) -> None:
    """The API is on loopback."""
    secret = folder / "token"
    secret.touch(mode=0o600)
    secret.write_text(TOKEN)
    trusted = folder / "stand-in-ca.pem"
    with StandInApi() as standin:
        trusted.write_text(standin.certificate, "ascii")
        rules = RULES.format(
            source="file:~/token",
            bound=f"{NAME}:{standin.port}",
            host=NAME,
            where=LOOPBACK.format(port=standin.port),
            path="/v1/me",
        )
        settings = {"EGRESS_UPSTREAM_CA": str(trusted), "EGRESS_RESOLVE": f"{NAME}=127.0.0.1"}
        with sandbox(
            folder, DemoScenario(NAME, standin.port, "/v1/me", "/v1/projects", rules, settings)
        ) as stage:
            play(stage, standin)
    show_audit(folder)


def with_github(folder: Path) -> None:
    """The API is the real one."""
    rules = RULES.format(source="env:GITHUB_TOKEN", bound=GITHUB, host=GITHUB, where="", path="/user")
    with sandbox(folder, DemoScenario(GITHUB, 443, "/user", "/gists", rules, {})) as stage:
        play(stage, None)
    show_audit(folder)


def played(folder: Path) -> None:
    """Play it in a folder."""
    try:
        if os.environ.get("REAL"):
            if not os.environ.get("GITHUB_TOKEN"):
                raise SystemExit("demo: REAL=1 wants a GITHUB_TOKEN in the environment")
            with_github(folder)
        else:
            with_standin(folder)
    except EgressError as error:
        raise SystemExit(f"demo: {error.message}\n{error.hint}") from None


# The review -------------------------------------------------------------------------------------------


def keep(folder: Path, place: Path) -> None:
    """Keep what a reviewer needs, in the place of what was kept before: no token, no authority."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{place.name}.", dir=place.parent) as name:
        fresh = Path(name, "fresh")
        fresh.mkdir(mode=0o700)
        shutil.copytree(folder / "state/audit", fresh / "audit")
        for file in ("state/audit.key", "hosts.yaml"):
            shutil.copy(folder / file, fresh)
        if place.exists():
            place.rename(Path(name, "before"))
        fresh.rename(place)


def review(place: Path, environ: Mapping[str, str]) -> None:
    """Serve the review page in the place of this process, or say how that is done."""
    title("The review page: what just happened, in a browser")
    is_served = is_terminal() and not environ.get("CI") and environ.get("REVIEW", "yes") != "no"
    options = ["--state-dir", str(place), "--rules", str(place / "hosts.yaml"), "--listen", "127.0.0.1:0"]
    if not is_served:
        show(shlex.join([".venv/bin/egress", "ui", *options[:-2]]))
        return
    label("Open the link and take /v1/projects, which was denied: its page answers `What would allow it?`")
    label("docs/guides/review.md goes on from there")
    print(flush=True)
    # In the place of this process, so that Ctrl-C finds nobody else.
    os.execve(EGRESS, [str(EGRESS), "ui", *options], dict(environ))  # noqa: S606 - a program of this project


def main() -> None:
    """Play it, and have it reviewed."""
    environ = dict(os.environ)
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else KEPT
    title("Egress: a sandbox that holds nothing, an API that wants a token, and the proxy between them")
    with tempfile.TemporaryDirectory(prefix="egress-demo-") as folder:
        played(Path(folder))
        keep(Path(folder), place)
    title("Next")
    print("  docs/tutorial.md         rules of your own, in ten steps")
    print("  docs/guides/run.md       your own command in a sandbox: egress run -- COMMAND")
    print("  docs/guides/agents.md    a coding agent in one")
    print("  docs/guides/review.md    what went out, and what would allow what did not")
    review(place, environ)


if __name__ == "__main__":
    main()
