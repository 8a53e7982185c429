"""What the tests of this room share: a clock that is set by hand, secrets of the rules, real scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from egress.rules.decide.policy import SecretSpec
from egress.secrets import CapturedEnvironment, SecretResolver
from egress.secrets.source_value import SourceValue
from egress.types import Place

TOKEN = b"tok_A1b2C3d4E5f6G7h8I9j0"
OTHER = b"tok_Z9y8X7w6V5u4T3s2R1q0"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


class HandClock:
    """Time passes only when the test says so."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += seconds


def spec(name: str, scheme: str, *reference: str, ttl: int | None = None) -> SecretSpec:
    return SecretSpec(name, Place("hosts.yaml", 1, 1), scheme, reference, ttl=ttl)


def file_spec(path: Path, name: str = "github", ttl: int | None = None) -> SecretSpec:
    return spec(name, "file", str(path), ttl=ttl)


def captured(
    values: Mapping[str, bytes] | None = None, environ: Mapping[str, str] | None = None
) -> CapturedEnvironment:
    given = {"PATH": SYSTEM_PATH, "HOME": "/"} if environ is None else environ
    return CapturedEnvironment({name: SourceValue(raw) for name, raw in (values or {}).items()}, given)


def resolver(
    clock: HandClock,
    given: CapturedEnvironment | None = None,
    *,
    deadline: float = 60.0,
    timeout: float = 60.0,
    container: bool = False,
) -> SecretResolver:
    return SecretResolver(
        clock=clock,
        captured=given or captured(),
        deadline=deadline,
        timeout=timeout,
        container=container,
    )


def put(path: Path, data: bytes) -> Path:
    """Replace a file the way it should be done: in one step."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    beside.rename(path)
    return path


def script(folder: Path, text: str, name: str = "get-secret") -> Path:
    """A program of the test's own."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


async def until(condition: Callable[[], bool]) -> None:
    """Let everything else run until it is so; the time limit of the test is the only clock."""
    while not condition():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.001)
