"""A client as its user meets it: what it is told, and what is known of it.

What is said here is what happens: a test runs the client with exactly these variables and files, and
docs/clients.md shows the same ones. It must not run anything; that is the stage's work.

    CURL = Client(
        name="curl",
        family="Command line",
        version=printed("curl", "--version"),
        variables={"HTTPS_PROXY": "{proxy}", "CURL_CA_BUNDLE": "{bundle}"},
        command=lambda ask: ("curl", "--silent", "--show-error", "--fail-with-body", ask.url),
    )

    @CURL.proves("plain")
    async def test_curl_gets_a_page(stage: Stage) -> None: ...
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest

from tests.tiers import ALSO

PROGRAMS = Path(__file__).with_name("programs")

CAPABILITIES = {
    "plain": "a page of a host that is allowed, where nothing is injected",
    "injected": "the credential arrives, once, in the place of any other; an echo of it comes back masked",
    "refusal": "what the user is shown of a request that is denied names the reason",
    "denied": "what the user is shown of a host that is denied names the reason",
    "large": "64 MiB come down whole",
    "upload": "64 MiB go up whole",
    "streaming": "each part of an answer is there before the next one is sent",
    "websocket": "a WebSocket opens, and messages come back",
    "http2": "HTTP/2 on both sides, where the rules open it",
    "grpc": "all four kinds of calls",
    "clone": "clone, whole and shallow",
    "fetch": "fetch what is new",
    "push": "push, a large pack too, where a rule allows it, and nowhere else",
    "install": "a package comes from an index and is installed",
    "signed": "a signature of the client's own arrives as it was made, where nothing is injected",
    "password": "the proxy is told the password that stands in its URL",
}
"""What a test may prove, in the order of the table. A word for one client alone is welcome here too."""

Verb = str


@dataclass(frozen=True, slots=True)
class Ask:
    """What a client is asked to do, once."""

    verb: Verb
    """`get`, `stream`, `put` or `websocket`; README.md beside this file says what each means."""
    url: str
    file: Path | None = None
    """What `put` sends."""


def _no_verb(ask: Ask) -> Sequence[str]:
    raise ValueError(f"this client is not asked to {ask.verb}: its tests give it commands of its own")


@dataclass(frozen=True)
class Client:
    """One row of the table.

    In the values of `variables` and `files`, and in the words of `before`, stand {proxy} (a URL),
    {proxy_host}, {proxy_port}, {bundle} (public roots and ours), {certificate} (ours alone), {home},
    {host} (of the upstream, with its port) and {other} (its name for which nothing is injected).
    """

    name: str
    family: str
    """The heading under which it stands."""
    version: Callable[[], str]
    command: Callable[[Ask], Sequence[str | Path]] = field(default=_no_verb)
    """How it is asked; left out for a client whose tests speak its own words."""
    variables: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """By their place below the home directory."""
    before: Sequence[Sequence[str]] = ()
    """Commands that its user runs once."""
    program: str = ""
    """What the user's own program must say, in words of the table."""
    around: dict[str, str] = field(default_factory=dict)
    """Variables of the test's own, such as where caches lie: no claim rests on them, no user needs them."""
    denied: str = ""
    """What it prints of a host that is denied, with ID for the id of the request."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """What does not work, by a word for it, and why, in words of the table. A test shows each."""

    def proves(self, *facts: str) -> pytest.MarkDecorator:
        """Mark a test that proves these capabilities, or shows these things that cannot work."""
        for fact in facts:
            if fact not in CAPABILITIES and fact not in self.cannot:
                raise ValueError(f"{self.name}: {fact!r} is neither in CAPABILITIES nor in `cannot`")
        return pytest.mark.proves(self, *facts)


OF_THE_PROXY: Final = frozenset({"large", "upload", "streaming"})


def proving(facts: str, *clients: Client) -> pytest.MarkDecorator:
    """Give a test the argument `client`, once for each of these; each proves the facts (by commas) by it.

    Of what depends on the proxy far more than on the client, the gate tries the first client of a file.
    """
    words = facts.split(", ")
    cases = [
        pytest.param(
            client,
            marks=[client.proves(*words), *([ALSO] if place and OF_THE_PROXY.issuperset(words) else ())],
            id=client.name,
        )
        for place, client in enumerate(clients)
    ]
    return pytest.mark.parametrize("client", cases)


# How its version is found ---------------------------------------------------------------------------


def printed(*command: str | Path, at: str = r"\d+(?:\.\d+)+\w*") -> Callable[[], str]:
    """The first thing like a version in what a command prints."""

    def ask() -> str:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        found = re.search(at, ran.stdout + ran.stderr)
        if found is None:
            raise ValueError(f"{command[0]} prints no version")
        return found[0]

    return ask


def installed(package: str) -> Callable[[], str]:
    """The version of a package beside the tests."""
    return lambda: metadata.version(package)


# How a program of ours is called --------------------------------------------------------------------


def calling(*program: str | Path) -> Callable[[Ask], Sequence[str | Path]]:
    """The command line of a program that keeps the contract of README.md."""
    return lambda ask: (*program, ask.verb, ask.url, *((ask.file,) if ask.file else ()))
