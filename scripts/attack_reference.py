"""The catalogue of attacks as a page: what is tried, and by which tests."""

from __future__ import annotations

from collections.abc import Iterator

from tests.attack.catalogue.case_coverage import CASES, ELSEWHERE, WHOLE
from tests.attack.catalogue.case_index import held_here, held_in_sandboxes

_TESTS = "../../tests"

INTRODUCTION = (
    "Each attack has a number, which the tests name. Those **from outside** run against the whole proxy,",
    "as a process with its usual settings, in networks of their own: with names, hosts and certificates of",
    "an attacker, and an eye on every packet. Each of them is also tried on a proxy that makes every",
    "mistake, and has to find the harm there; a few, for which such a proxy has nothing to try, have a twin",
    "that finds it in another way. Each is framed by an allowed request that has to work. Where something",
    "has to fail around the proxy, such as a clock that jumps or a source of secrets that hangs, the test is",
    "one below `tests/faults`: it runs the whole proxy as well, without such a twin.",
    "[The lab](../../tests/attack/lab/README.md) tells how. Those **from a sandbox** run in a real one, of",
    "containers and of namespaces. Those **of parts** take one part by itself.",
    "",
    "| attack | what is tried | from outside | from a sandbox | of parts |",
    "| --- | --- | --- | --- | --- |",
)


def rows() -> Iterator[str]:
    """The table, one attack a line."""
    outside, inside = held_here(), held_in_sandboxes()
    for number, what in CASES.items():
        whole = (*outside.get(number, ()), *WHOLE.get(number, ()))
        by = (whole, inside.get(number, ()), ELSEWHERE.get(number, ()))
        yield f"| {number} | {what} | {' | '.join(_listed(nodes) for nodes in by)} |"


def _listed(nodes: tuple[str, ...] | list[str]) -> str:
    linked = []
    for node in nodes:
        file, _, name = node.partition("::")
        linked.append(f"[{name.removeprefix('test_').replace('_', ' ')}]({_TESTS}/{file})")
    return "; ".join(linked)
