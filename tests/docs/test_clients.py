"""What is said of clients is what their tests prove, and the two variables of the guide are enough.

docs/clients.json holds what was proven, docs/clients.md shows it. Versions are those of the machine that
wrote it: on another one they may differ, so nothing here looks at them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.cli.stand_in_api import NAME
from scripts.clients import by_client, declared, table
from scripts.pages import ROOT, text
from tests.docs.test_serving import TOKEN, Api, adapted, api, shown
from tests.proxy.serve_process import ServeProcess

GUIDE = ROOT / "docs/guides/clients.md"
PYTHON = Path(sys.executable).name
TRUST = ("{bundle}", "{certificate}")

RENEW = "run make clients, then make docs"

# By the name in docs/clients.json: the program, with URL for the address that is asked.
CLIENTS = {
    "curl": ["curl", "--silent", "--show-error", "URL"],
    "urllib, standard library": [PYTHON, "-c", "import urllib.request as u; print(u.urlopen('URL').read())"],
    "requests": [PYTHON, "-c", "import requests; print(requests.get('URL').text)"],
    "httpx": [PYTHON, "-c", "import httpx; print(httpx.get('URL').text)"],
}
PROXY = "HTTPS_PROXY"


# The table and the tests ----------------------------------------------------------------------------


def test_the_table_says_of_each_client_what_its_tests_declare() -> None:
    """No claim that no test proves, none that is missing, no settings but those the tests use."""
    known, found = declared(), table()
    assert found["capabilities"] == dict(known.capabilities), RENEW
    assert set(found["clients"]) == set(known.rows), RENEW
    for client, row in found["clients"].items():
        assert {**row, "version": ""} == known.rows[client], f"{client}: {RENEW}"
        unshown = set(row["cannot"]) - set(known.claims[client])
        assert not unshown, f"{client} cannot {unshown}, and no test shows it"


def test_a_claim_counts_once_for_each_test_that_makes_it() -> None:
    """What the table is held to is read from the tests, fact by fact."""
    found = by_client([("curl", "plain", "one"), ("curl", "plain", "two"), ("git", "push", "three")])
    assert found == {"curl": {"plain": {"one", "two"}}, "git": {"push": {"three"}}}


def test_every_row_names_a_version_and_tells_something() -> None:
    for name, row in table()["clients"].items():
        assert row["version"], name
        assert row["proves"] or row["cannot"], name


def test_every_variable_that_carries_trust_is_in_the_guide() -> None:
    rows = table()["clients"].values()
    names = {name for row in rows for name, value in row["variables"].items() if value in TRUST}
    assert [name for name in sorted(names) if f"`{name}`" not in text(GUIDE)] == []


# The guide ------------------------------------------------------------------------------------------


def trust_of(client: str) -> str:
    """The variable of the table by which a client trusts the bundle."""
    variables = table()["clients"][client]["variables"]
    (found,) = (name for name, value in variables.items() if value == "{bundle}")
    return found


@pytest.fixture
def through(tmp_path: Path) -> Iterator[tuple[ServeProcess, Api]]:
    rules = shown(ROOT / "docs/tutorial.md")[0]
    with api(tmp_path / "api") as standin:
        options = [f"--upstream-ca={standin.ca}", f"--resolve={NAME}=127.0.0.1"]
        env = {"TRACKER_TOKEN": TOKEN}
        with ServeProcess(tmp_path / "home", adapted(rules, standin.port), options, env=env) as served:
            yield served, standin


@pytest.mark.system("curl", "curl")
@pytest.mark.parametrize("client", CLIENTS)
def test_two_variables_are_enough(client: str, through: tuple[ServeProcess, Api]) -> None:
    """With the proxy that people start and the bundle that it exports."""
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
