"""Find out what works with which client, and write it to docs/clients.json: the tests are asked.

    python -m scripts.clients              every client
    python -m scripts.clients git curl     these; what is known of the others stays

The tests run each client and say what they prove of it; tests/proxy/clients/README.md tells how. What is
written of a client is all of its claims, and only when each test of it has passed. `python -m scripts.docs`
makes the page of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from scripts.asked_tests import ask_tests, renew_and_report
from scripts.pages import ROOT

TABLE = ROOT / "docs/clients.json"
TESTS = "tests/proxy/clients"


class Declared(TypedDict):
    """What a client's tests say of it, apart from what they prove."""

    family: str
    test: str
    version: str
    variables: dict[str, str]
    files: dict[str, str]
    before: list[list[str]]
    program: str
    denied: str
    """What its user is shown of a denied host; empty where no test shows it."""
    cannot: dict[str, str]


class Row(Declared):
    """What is known of one client, as it stands in the file."""

    proves: list[str]


class Table(TypedDict):
    """The file."""

    capabilities: dict[str, str]
    clients: dict[str, Row]


Claims = Mapping[str, Mapping[str, frozenset[str]]]
"""The tests by what they prove, by the client."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the tests declare, and how they went."""

    capabilities: Mapping[str, str]
    rows: Mapping[str, Row]
    """By the name of the client. The version is empty where nobody asked for it, or it did not answer."""
    claims: Claims
    outcomes: Mapping[str, str]

    def tests(self, client: str) -> set[str]:
        """All tests that prove something of a client."""
        return {test for tests in self.claims[client].values() for test in tests}

    def missing(self, client: str) -> list[str]:
        """Those among them that have not passed."""
        return sorted(test for test in self.tests(client) if self.outcomes.get(test) != "passed")


def table() -> Table:
    """What is known."""
    found: Table = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def declared(tests: Iterable[str] = (TESTS,), *options: str) -> Found:
    """Ask the tests what they declare; none of them runs."""
    return asked("--collect-only", *options, *tests)


def asked(*arguments: str) -> Found:
    """Run pytest with these arguments, and read what it wrote down."""
    found, _ = ask_tests("clients", f"{TESTS.replace('/', '.')}.record", "--record", *arguments)
    capabilities: dict[str, str] = found["capabilities"]
    claims = by_client(found["claims"])
    clients: dict[str, Declared] = found["clients"]
    rows: dict[str, Row] = {
        name: {**row, "proves": [fact for fact in capabilities if fact in claims[name]]}
        for name, row in clients.items()
    }
    return Found(capabilities, rows, claims, found["outcomes"])


def by_client(claims: Iterable[tuple[str, str, str]]) -> Claims:
    """Sort claims by client and fact."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for client, fact, test in claims:
        facts = found.setdefault(client, {})
        facts[fact] = facts.get(fact, frozenset()) | {test}
    return found


def renew(names: Sequence[str]) -> Iterator[str]:
    """Renew what is known of these clients, or of all; says of which it could not, and why."""
    known = declared()
    if strangers := set(names) - set(known.rows):
        raise SystemExit(f"clients: no test declares {', '.join(sorted(strangers))}")
    wanted = names or sorted(known.rows)
    tests = sorted(set[str]().union(*map(known.tests, wanted)))
    known = replace(known, outcomes=asked("-n", "auto", *tests).outcomes)
    # Asked last: some clients are fetched by their tests.
    versions = declared(tests, "--versions").rows
    rows = {name: row for name, row in table()["clients"].items() if name in known.rows}
    for name in wanted:
        if missing := known.missing(name):
            yield f"{name}: not proven here: {', '.join(missing)}"
        elif not versions[name]["version"]:
            yield f"{name}: it tells no version"
        else:
            rows[name] = versions[name]
    write({"capabilities": dict(known.capabilities), "clients": dict(sorted(rows.items()))})


def write(found: Table) -> None:
    """Put the table in its place."""
    TABLE.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    renew_and_report("clients", renew)
