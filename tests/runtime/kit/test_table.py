"""The kit against the table of clients: what their users are told to set, a sandbox has without being told.

Each client of the table is run with the kit by a test beside this one. Here it is held to what was proven by
hand: the same variables with the same meaning, the same lines in the same files.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict
from xml.etree import ElementTree as ET

import pytest

from egress.ca import Authority, public_roots
from egress.runtime.kit import ProxyAddress, make_kit
from tests.proxy.clients import test_node
from tests.runtime.kit import client_requirements, test_clients, test_managers
from tests.runtime.kit.kit_stage import INDEXES

ROOT = Path(__file__).parents[3]
TRUSTED = Authority.create("table", 1_800_000_000).certificate_pem
KIT = make_kit(TRUSTED, public_roots(), ProxyAddress("10.9.8.7", 3128))
HOME = "/home/you"

PLACES = {
    "proxy": "http://10.9.8.7:3128",
    "proxy_host": "10.9.8.7",
    "proxy_port": "3128",
    "bundle": "/etc/egress/bundle.pem",
    "certificate": "/etc/egress/ca.pem",
    "home": HOME,
}
MOVED = {
    f"{HOME}/egress.p12": "/etc/egress/truststore.p12",
    f"{HOME}/egress-apt.conf": "/etc/egress/apt.conf",
    f"{HOME}/php": "/etc/egress/php",
}
"""What a user has at home lies in the folder of the kit."""
FILES = {
    ".wgetrc": "/etc/egress/wgetrc",
    "egress-apt.conf": "/etc/egress/apt.conf",
    "php/egress.ini": "/etc/egress/php/egress.ini",
    ".m2/settings.xml": "/etc/egress/maven-settings.xml",
}

NOT_BY_A_KIT = {
    "HTTP::Tiny": "whether it verifies at all is said by the program, before 0.083",
    "aiohttp": "whether it looks at variables for the proxy is said by the program; names lead to the door",
    "fetch of Node below 22.21 and 24.5": "it reads no variable for the proxy; names lead to the door",
    "httpx": "whether it speaks HTTP/2 is said by the program",
    "openssl s_client": "its proxy is an option; names lead to the door",
    "streams of PHP": "the proxy is named by the program; names lead to the door",
    "undici": "its dispatcher is set by the program; names lead to the door",
    "urllib3": "proxy and roots are named by the program; names lead to the door",
    "ws": "its agent is set by the program; names lead to the door",
}
"""Of these clients a part is beyond variables and files; all of them trust the authority by the kit."""


class Row(TypedDict):
    variables: Mapping[str, str]
    files: Mapping[str, str]
    before: list[list[str]]
    program: str


def rows() -> dict[str, Row]:
    found: dict[str, Row] = json.loads((ROOT / "docs/clients.json").read_text())["clients"]
    return found


ROWS = rows()


def here(text: str) -> str:
    """A value as it is to be found in the kit."""
    text = text.format(**PLACES)
    for home, inside in MOVED.items():
        text = text.replace(home, inside)
    return text


@pytest.mark.parametrize("client", ROWS)
def test_what_a_user_would_set_is_set(client: str) -> None:
    for name, value in ROWS[client]["variables"].items():
        if any(word in value for word in INDEXES):
            continue  # Which index is asked is the user's own business.
        assert name in KIT.variables, f"{client} wants {name}"
        wanted, found = here(value), KIT.variables[name]
        if name == "JAVA_TOOL_OPTIONS":
            assert set(wanted.split()) <= set(found.split())
        else:
            assert found == wanted


@pytest.mark.parametrize("client", ROWS)
def test_what_a_user_would_write_is_written(client: str) -> None:
    for place, text in ROWS[client]["files"].items():
        found = KIT.files[FILES[place]].content.decode()
        if place.endswith(".xml"):
            assert proxies(here(text)) <= proxies(found)
        else:
            assert set(here(text).splitlines()) <= set(found.splitlines())


@pytest.mark.parametrize("client", ROWS)
def test_what_a_user_would_run_once_is_done(client: str) -> None:
    """There is one such command: it makes the store that the kit brings along."""
    for command in ROWS[client]["before"]:
        words = [here(word) for word in command]
        assert words[:2] == ["keytool", "-importcert"]
        assert words[words.index("-keystore") + 1] in KIT.files


def test_what_is_beyond_a_kit_is_named() -> None:
    assert set(NOT_BY_A_KIT) == {client for client, row in ROWS.items() if row["program"]}


def test_every_client_of_the_table_is_run_with_the_kit() -> None:
    pages = {client.name for client in (*test_clients.PAGES, *test_clients.FRAMES, test_node.NODE)}
    assert pages | managers() == set(ROWS)


def managers() -> set[str]:
    """The clients that the tests of package managers are given."""
    found = set()
    for test in filter(inspect.isfunction, vars(test_managers).values()):
        for mark in getattr(test, "pytestmark", []):
            if mark.name == "parametrize":
                found |= {case.id for case in mark.args[1]}
    return found


def test_what_clients_need_is_known_of_every_file_that_declares_one() -> None:
    declared = {
        client.name
        for module in client_requirements.FETCHED
        for client in client_requirements.clients(module)
    }
    assert declared == set(ROWS)


def proxies(settings: str) -> set[tuple[str | None, ...]]:
    """What settings of Maven say of proxies for https."""
    words = ("active", "protocol", "host", "port")
    found = ET.fromstring(settings).iter("proxy")
    return {tuple(proxy.findtext(word) for word in words) for proxy in found}
