"""Lines of a run, as programs ask for them. Their MACs are none: nothing here verifies a chain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

RUN: Final = "4f2a9c1e"


def add_lines(directory: Path, *requests: str, sandbox: str = "one", run: str = RUN) -> None:
    """Write a denied request for each id, a second apart."""
    file = directory / "audit-000001.jsonl"
    before = file.read_text().count("\n") if file.exists() else 0
    with file.open("a") as log:
        for number, request in enumerate(requests, before + 1):
            fields: dict[str, object] = {"seq": number, "time": f"2026-11-20T06:{number:02d}:00.000000Z"}
            fields |= {"run": run, "event": "exchange", "sandbox": sandbox, "request": request}
            fields |= {"scheme": "https", "host": "a.example", "port": 443, "method": "GET", "path": "/"}
            fields |= {"verdict": "deny", "code": "rule.none", "policy": "5f2b8c0d", "mac": "0" * 64}
            log.write(json.dumps(fields) + "\n")
