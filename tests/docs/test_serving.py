"""The pages that show a running proxy show what a running proxy does.

A ```shellsession block is run beside `egress serve`, which was started with the rule file that the page
shows above it; a page is read from its first to its last line:

    shellsession serve      the start itself, and what it prints
    shellsession            commands of a client; one shell runs all of them, so that exports hold
    shellsession stopped    commands after the proxy was told to stop
    shellsession start      what comes before; `test_start` runs it
    shellsession up         commands beside `egress up`; `test_api_guide` runs them

The API is the stand-in of the demo, on loopback and a port of the kernel's choice. So ports, ids and the
certificate differ from run to run, and are put back to what the page says before it is compared. A page may
say itself how the stand-in is reached: then it is at port 8443, its authority is in api-ca.pem, and the proxy
has the options that are shown and no others.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest

from egress.cli.stand_in_api import NAME
from scripts.console import STEP
from scripts.pages import PAGES, ROOT, Block, blocks, name
from tests.cli.command import environment, put
from tests.proxy.serve_process import ServeProcess

pytestmark = pytest.mark.system("curl", "curl")

LANGUAGE = "shellsession"
ELSEWHERE = {("start",), ("up",)}
SHOWING = [
    page
    for page in PAGES
    if any(block.language == LANGUAGE and block.words not in ELSEWHERE for block in blocks(page))
]
TOKEN = "made-up-token-4f2a9c1e"
NEXT = "---- next block ----"
PORT = "8443"
CA = "api-ca.pem"
_PORT_OF_API = re.compile(rf"{re.escape(NAME)}:\d+")

STANDIN = """
import json, sys
from pathlib import Path
from egress.cli.stand_in_api import StandInApi
with StandInApi() as standin:
    trusted = Path(sys.argv[1], "stand-in-ca.pem")
    trusted.write_text(standin.certificate)
    print(json.dumps([standin.port, str(trusted)]), flush=True)
    sys.stdin.read()
    print(json.dumps(standin.received))
"""


@dataclass(frozen=True, slots=True)
class Api:
    """The stand-in, in a process of its own: tests here may not open sockets."""

    process: subprocess.Popen[str]
    port: int
    ca: str

    def received(self) -> list[str]:
        """End it, and return the requests it got."""
        out, _ = self.process.communicate()
        found: list[str] = json.loads(out)
        return found


@contextmanager
def api(folder: Path) -> Iterator[Api]:
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", STANDIN, str(folder)],
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        port, ca = json.loads(process.stdout.readline())
        try:
            yield Api(process, port, ca)
        finally:
            process.kill()


def shown(page: Path) -> tuple[str, list[Block], list[Block], list[Block]]:
    """The rule file of a page; the start, the commands of clients, those after the end."""
    rules, found = "", []
    for block in blocks(page):
        if block.language == LANGUAGE and block.words not in ELSEWHERE:
            found.append(block)
        elif block.language == "yaml" and not found and not block.is_wrong:
            rules = block.text
    start, *rest = found
    assert start.words == ("serve",), start.place
    during = list(takewhile(lambda block: block.words != ("stopped",), rest))
    return rules, [start], during, rest[len(during) :]


def adapted(rules: str, port: int) -> str:
    """The rules, for an API on loopback; every line keeps its number."""
    if PORT in rules:
        return rules.replace(PORT, str(port))
    bound = rules.replace(f"hosts: [{NAME}]", f'hosts: ["{NAME}:{port}"]')
    opened = f"  {NAME}:\n    ports: [{port}]\n    addresses: [127.0.0.1/32]\n"
    assert bound.partition(f"  {NAME}:\n")[0].count("\n\n") == 2, "the place of the rules would move"
    return bound.replace("\n\n", "\n", 2).replace(f"  {NAME}:\n", opened)


def printed(commands: list[Block], served: ServeProcess, port: int) -> list[str]:
    """What the commands print, a text for each block."""
    script = f"egress() {{ '{sys.executable}' -m egress \"$@\"; }}\n"
    for block in commands:
        for line in block.text.splitlines():
            if line.startswith("$ "):
                real = line[2:].replace("127.0.0.1:3128", f"127.0.0.1:{served.port}")
                real = real.replace(f"https://{NAME}/", f"https://{NAME}:{port}/")
                real = real.replace(f"https://{NAME}:{PORT}/", f"https://{NAME}:{port}/")
                script += STEP.format(shown=line[2:].replace("'", "'\\''"), command=real)
        script += f"echo '{NEXT}'\n"
    ran = subprocess.run(
        ["sh", "-c", script],
        cwd=served.folder,
        env=environment(served.folder, served.env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.stdout.split(f"{NEXT}\n")[:-1]


def settled(text: str, served: ServeProcess) -> str:
    """A text without what differs from run to run."""
    # People have the usual folder, which no command has to name.
    text = text.replace(f" --runtime-dir {served.runtime}", "")
    text = text.replace(f"{served.runtime}", "/run/user/1000/egress").replace(f"{served.folder}", "/home/you")
    text = text.replace(f"127.0.0.1:{served.port}", "127.0.0.1:3128").replace("\r", "")
    text = _PORT_OF_API.sub(NAME, text)
    text = re.sub(r'(egress-request: |"request": "|egress log suggest )[\w-]{12}', r"\g<1>SdrnkMdyEeXg", text)
    return re.sub(r"\b[0-9a-f]{64}\b", "35259a" + "…", text)


def options_of(start: Block, standin: Api, home: Path) -> list[str]:
    """The options of the proxy: those that the page shows, or what it needs to find the stand-in."""
    command = start.text.partition("\n")[0]
    if "--resolve" not in command:
        return [f"--upstream-ca={standin.ca}", f"--resolve={NAME}=127.0.0.1"]
    put(home / CA, Path(standin.ca).read_text(encoding="utf-8"))
    words = shlex.split(command.removeprefix("$ "))
    assert words[:4] == ["egress", "serve", "--rules", "hosts.yaml"], start.place
    return words[4:]


def assert_shown(wanted: list[Block], got: list[str], served: ServeProcess) -> None:
    for block, text in zip(wanted, got, strict=True):
        assert settled(text, served) == _PORT_OF_API.sub(NAME, block.text), block.place


@pytest.mark.parametrize("page", SHOWING, ids=name)
def test_a_page_shows_what_a_running_proxy_does(page: Path, tmp_path: Path) -> None:
    rules, starts, during, after = shown(page)
    with api(tmp_path / "api") as standin:
        home = tmp_path / "home"
        options = options_of(starts[0], standin, home)
        env = {"TRACKER_TOKEN": TOKEN}
        with ServeProcess(home, adapted(rules, standin.port), options, env=env) as served:
            del served.env["TRACKER_TOKEN"]
            command, _, says = starts[0].text.partition("\n")
            if says:
                assert_shown(starts, ["\n".join([command, *served.out, ""])], served)
            assert_shown(during, printed(during, served, standin.port), served)
            served.signal(signal.SIGTERM)
            assert served.ended() == 0
            assert_shown(after, printed(after, served, standin.port), served)
        received = standin.received()
    assert received, "no page is about denials alone"
    assert all(f"authorization: Bearer {TOKEN}" in request for request in received)


def test_the_pages_that_show_a_running_proxy_are_found() -> None:
    """Otherwise the test above could pass by finding none."""
    assert {ROOT / "README.md", ROOT / "docs/tutorial.md", ROOT / "docs/guides/clients.md"} <= set(SHOWING)


def test_every_such_block_begins_with_a_command() -> None:
    for page in SHOWING:
        for block in blocks(page):
            if block.language == LANGUAGE:
                assert block.text.startswith("$ "), block.place
