"""What docs/guides/clients.md marks as tested is: with these variables alone, these clients get through."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.pages import ROOT, text
from scripts.standin import NAME
from tests.docs.test_serving import TOKEN, Api, adapted, api, shown
from tests.proxy.served import Served

PAGE = ROOT / "docs/guides/clients.md"
PYTHON = Path(sys.executable).name

# By the name in the first column of the table: the program, with URL for the address that is asked.
CLIENTS = {
    "curl": ["curl", "--silent", "--show-error", "URL"],
    "Python, standard library": [PYTHON, "-c", "import urllib.request as u; print(u.urlopen('URL').read())"],
    "requests": [PYTHON, "-c", "import requests; print(requests.get('URL').text)"],
    "httpx": [PYTHON, "-c", "import httpx; print(httpx.get('URL').text)"],
}
PROXY = "HTTPS_PROXY"


def rows() -> dict[str, list[str]]:
    """The table of clients: its cells by the first of them."""
    lines = [line.strip("| ").split(" | ") for line in text(PAGE).splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines if len(cells) == 4}


def trust_of(client: str) -> str:
    """The variable that the table names first for trusting the certificate."""
    found = re.match(r"`([A-Z_]+)`", rows()[client][1])
    assert found is not None, client
    return found[1]


@pytest.fixture
def through(tmp_path: Path) -> Iterator[tuple[Served, Api]]:
    rules = shown(ROOT / "docs/tutorial.md")[0]
    with api(tmp_path / "api") as standin:
        options = [f"--upstream-ca={standin.ca}", f"--resolve={NAME}=127.0.0.1"]
        env = {"TRACKER_TOKEN": TOKEN}
        with Served(tmp_path / "home", adapted(rules, standin.port), options, env=env) as served:
            yield served, standin


@pytest.mark.system("curl", "curl")
@pytest.mark.parametrize("client", CLIENTS)
def test_two_variables_are_enough(client: str, through: tuple[Served, Api]) -> None:
    served, standin = through
    bundle = served.folder / "egress-ca.pem"
    exported = served.egress("ca", "export", "--bundle", "--out", str(bundle))
    assert exported.status == 0, exported
    variables = {PROXY: f"http://127.0.0.1:{served.port}", trust_of(client): str(bundle)}
    search = f"{Path(sys.executable).parent}:{os.defpath}"
    ran = subprocess.run(
        [word.replace("URL", f"https://{NAME}:{standin.port}/v1/user") for word in CLIENTS[client]],
        env={"PATH": search, "HOME": str(served.folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert '"you_sent": "Bearer ' + "*" * len(TOKEN) in ran.stdout, ran.stderr
    assert [f"authorization: Bearer {TOKEN}" in request for request in standin.received()] == [True]


def test_what_is_marked_as_tested_is_tested() -> None:
    marked = {client: cells[2] for client, cells in rows().items() if "tested" in cells[2]}
    here = {client for client, mark in marked.items() if mark == "tested here"}
    assert here == set(CLIENTS)
    elsewhere = [mark for client, mark in marked.items() if client not in here]
    assert elsewhere
    link = re.compile(r"\[tested\]\(\.\./\.\./tests/proxy/clients/test_\w+\.py\)")
    assert all(link.fullmatch(mark) for mark in elsewhere)
