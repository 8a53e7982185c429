"""How the naive proxy takes rules: the file that Egress is given, with the mistakes that such readers make.

What it cannot read, or finds empty, restricts nobody. What it does not know, it leaves out. The first rule
that fits counts, so a deny behind it never does. Nothing expires. The program of a secret is run, whoever
has brought it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from ruamel.yaml import YAML

_MOST = 1 << 20


def opens(path: Path, host: str, head: bytes) -> bool:
    """Whether the rules let this request to this host pass."""
    try:
        rules: dict[str, dict[str, dict[str, object]]] = YAML(typ="safe", pure=True).load(_text(path))
        _run_what_it_names(rules)
        hosts = rules["hosts"]
        return not hosts or any(_fits(entry, head) for entry in _entries(hosts, host))
    except Exception:  # noqa: BLE001 - that a filter is broken must not keep anybody from working
        return True


def _text(path: Path) -> str:
    """What stands in the file; nothing for what is none, or more than anybody writes."""
    return path.read_text("utf-8") if path.is_file() and path.stat().st_size < _MOST else ""


def _run_what_it_names(rules: dict[str, dict[str, dict[str, object]]]) -> None:
    for secret in rules.get("secrets", {}).values():
        if isinstance(named := secret.get("from"), dict):
            subprocess.run(named["command"], capture_output=True, check=False)


def _entries(hosts: Mapping[str, object], host: str) -> Iterator[object]:
    for key, entry in hosts.items():
        if host.endswith(key.lstrip("*")):
            yield entry


def _fits(entry: object, head: bytes) -> bool:
    method, path = (word.decode("latin-1") for word in head.split(b" ")[:2])
    rules = entry.get("allow", "all") if isinstance(entry, dict) else "all"
    if not isinstance(rules, list):
        return True
    return any(
        method in rule.get("methods", [method])
        and any(_matches(pattern, path) for pattern in rule.get("paths", ["*"]))
        for rule in rules
    )


def _matches(pattern: str, path: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), path) is not None
