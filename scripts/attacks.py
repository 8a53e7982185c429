"""The catalogue of attacks as a page: what is tried, and by which tests."""

from __future__ import annotations

from collections.abc import Iterator

from tests.attack.catalogue.covered import CASES, ELSEWHERE, IN_CONTAINERS, IN_PART
from tests.attack.catalogue.held import held_here

_TESTS = "../../tests"

INTRODUCTION = (
    "Each attack has a number, which the tests name. Those **from outside** run against the whole proxy,",
    "as a process with its usual settings, in networks of their own: with names, hosts and certificates of",
    "an attacker, and an eye on every packet. Each of them is also tried on a proxy that makes every",
    "mistake, and has to find the harm there; a few, for which such a proxy has nothing to try, have a twin",
    "that finds it in another way. Each is framed by an allowed request that has to work.",
    "[The lab](../../tests/attack/lab/README.md) tells how. Those **from inside** take one part by itself.",
    "",
    "| attack | what is tried | from outside | from inside |",
    "| --- | --- | --- | --- |",
)


def rows() -> Iterator[str]:
    """The table, one attack a line."""
    outside = held_here()
    for number, what in CASES.items():
        inside = "waits for containers" if number in IN_CONTAINERS else _listed(ELSEWHERE.get(number, ()))
        if number in IN_PART:
            inside += f"; {IN_PART[number]}"
        yield f"| {number} | {what} | {_listed(outside.get(number, ()))} | {inside} |"


def _listed(nodes: tuple[str, ...] | list[str]) -> str:
    linked = []
    for node in nodes:
        file, _, name = node.partition("::")
        linked.append(f"[{name.removeprefix('test_').replace('_', ' ')}]({_TESTS}/{file})")
    return "; ".join(linked)
