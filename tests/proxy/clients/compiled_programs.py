"""Programs of `programs/` that have to be compiled: made once into .cache/clients, anew for another compiler.

Nothing here fetches: both use what their compiler brings along.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.proxy.clients.cache import Fetched, work
from tests.proxy.clients.client import PROGRAMS


def _sources(language: str) -> tuple[Path, ...]:
    return tuple(sorted(path for path in (PROGRAMS / language).iterdir() if path.is_file()))


def _build(compiler: str) -> str:
    """Which build of a compiler this is, without starting it."""
    found = shutil.which(compiler)
    if found is None:
        return ""
    program = Path(found).resolve()
    return f"{program} {program.stat().st_mtime_ns}"


def _go(folder: Path) -> None:
    for source in _sources("go"):
        shutil.copy(source, folder)
    settings = (f"GOCACHE={folder / 'build'}", "CGO_ENABLED=0", "GOFLAGS=", "GOPROXY=off")
    # Nothing is inlined: the libraries of Go are compiled too, and that takes a third less so.
    work("env", *settings, "go", "build", "-gcflags=all=-l", "-o", "ask", ".", folder=folder)
    shutil.rmtree(folder / "build")


def _java(folder: Path) -> None:
    work("javac", "--release", "17", "-d", folder, *_sources("java"), folder=folder)


GO = Fetched("go", _sources("go"), _go, tool=_build("go"))
JAVA = Fetched("java", _sources("java"), _java, tool=_build("javac"))
