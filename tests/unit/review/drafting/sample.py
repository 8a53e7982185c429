"""Lines of a log, as the tests of drafting need them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from egress.review.drafting.suggest import SuggestedStep

NOW = 1_790_000_000
GITHUB = [("github", "header:authorization")]


def exchange(
    method: str = "GET",
    host: str = "api.example.com",
    path: str = "/user",
    *,
    injected: Sequence[tuple[str, str]] = (),
    **fields: object,
) -> dict[str, object]:
    """An exchange that passed, and what differs."""
    return {
        "event": "exchange",
        "sandbox": "agent-1",
        "profile": None,
        "entry": "connect",
        "connection": "c-1",
        "request": "c-1-1",
        "scheme": "https",
        "host": host,
        "port": 443,
        "address": "93.184.216.34",
        "method": method,
        "path": path,
        "status": 200,
        "verdict": "allow",
        "code": "rule.allowed",
        "injected": [{"secret": secret, "slot": slot} for secret, slot in injected],
        "alpn": "http/1.1",
    } | fields


def denied(
    code: str, method: str = "GET", host: str = "api.example.com", path: str = "/user", **fields: object
) -> dict[str, object]:
    """An exchange that was denied."""
    return exchange(method, host, path) | {"verdict": "deny", "code": code, "status": 403} | fields


def tunnel(host: str = "pinned.example.net", port: int = 443) -> dict[str, object]:
    """A tunnel that has ended."""
    return {
        "event": "tunnel",
        "profile": None,
        "connection": "c-2",
        "request": "c-2",
        "host": host,
        "port": port,
        "address": None,
        "verdict": "allow",
        "code": "host.allowed",
    }


def refusal(code: str, host: str, port: int = 443, entry: str = "connect") -> dict[str, object]:
    """A connection, or a name, that was refused."""
    return {
        "event": "refusal",
        "profile": None,
        "entry": entry,
        "connection": "c-3",
        "host": host,
        "port": port,
        "verdict": "deny",
        "code": code,
    }


def pasted(text: str, *steps: SuggestedStep) -> str:
    """A rule file after a person has done what the steps say, and nothing else."""
    for step in steps:
        lines = text.splitlines()
        found = re.match(
            r"[^,]+, (?:(before) line (\d+)|in place of lines? (\d+)(?: to (\d+))?|at its (end))", step.where
        )
        assert found is not None, step.where
        if found[5]:
            first = last = len(lines)
        elif found[1]:
            first = last = int(found[2]) - 1
        else:
            first, last = int(found[3]) - 1, int(found[4] or found[3])
        text = "\n".join([*lines[:first], *step.yaml, *lines[last:]]) + "\n"
    return text
