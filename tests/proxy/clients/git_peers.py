"""Libraries that speak git without git, and a program on each that pushes one ref.

    PROGRAM FOLDER URL SOURCE TARGET [force]

It ends with status 0 where the ref has moved; else it says on standard error what its user is told.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.proxy.clients.cache import Fetched, python_environment, work
from tests.proxy.clients.client import PROGRAMS
from tests.proxy.clients.standins.truststore import IMPORT, TRUST

_PINS: Final = PROGRAMS / "git_peers"
_JGIT_OPTIONS: Final = f"-Dhttps.proxyHost={{proxy_host}} -Dhttps.proxyPort={{proxy_port}} {TRUST}"


def _go(folder: Path) -> None:
    for source in (_PINS / "go").iterdir():
        shutil.copy(source, folder)
    work("env", "CGO_ENABLED=0", "go", "build", "-mod=readonly", "-o", "push", ".", folder=folder)


def _java(folder: Path) -> None:
    jars = folder / "jars"
    copy = ("dependency:copy-dependencies", f"-DoutputDirectory={jars}")
    work("mvn", "-q", "--batch-mode", "-f", _PINS / "java/pom.xml", *copy, folder=folder)
    lines = (_PINS / "java/jars.sha256").read_text("utf-8").splitlines()
    wanted = {name: digest for digest, name in map(str.split, lines)}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars.iterdir()}
    if found != wanted:
        raise OSError("the jars are not those that jars.sha256 names")
    work("javac", "-cp", f"{jars}/*", "-d", folder, _PINS / "java/WithJgit.java", folder=folder)


def _pins(language: str) -> tuple[Path, ...]:
    return tuple(sorted((_PINS / language).iterdir()))


LOCK: Final = _PINS / "python/requirements.lock"
PYTHON: Final = Fetched("git-python", (LOCK,), functools.partial(python_environment, LOCK))
GO: Final = Fetched("git-go", _pins("go"), _go)
JAVA: Final = Fetched("git-java", _pins("java"), _java)


@dataclass(frozen=True)
class GitPeer:
    """A library, and how its program is called."""

    name: str
    fetched: Fetched
    words: Sequence[str | Path]
    variables: dict[str, str] = field(default_factory=dict)
    """What its user would set; the places of a client's values can stand in it."""
    before: Sequence[str] = ()


_HTTP: Final = {"HTTPS_PROXY": "{proxy}", "SSL_CERT_FILE": "{bundle}"}


def _python(name: str, **more: str) -> GitPeer:
    program = _PINS / "python" / f"with_{name}.py"
    return GitPeer(name, PYTHON, (PYTHON.folder / "venv/bin/python", program), {**_HTTP, **more})


PEERS: Final = (
    _python("dulwich", https_proxy="{proxy}"),
    _python("libgit2"),
    GitPeer("go-git", GO, (GO.folder / "push",), _HTTP),
    GitPeer(
        "JGit",
        JAVA,
        ("java", "-XX:TieredStopAtLevel=1", "-cp", f"{JAVA.folder}/jars/*:{JAVA.folder}", "WithJgit"),
        {"JAVA_TOOL_OPTIONS": _JGIT_OPTIONS},
        IMPORT,
    ),
)
