"""Where a secret may come back from, and for how long after the rules have changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.rules.hosts import pattern
from egress.rules.policy import Binding, SecretSpec
from egress.secrets import reach
from egress.secrets.reach import Reach
from egress.secrets.trail import KEPT
from tests.unit.secrets.rig import spec


def bound(name: str, host: str = "a.example", port: int = 443) -> SecretSpec:
    return replace(spec(name, "env", "TOKEN"), bindings=(Binding(pattern(host), port),))


def never(_: str) -> bool:
    return False


def names(of: Reach, host: str = "a.example", *, now: float = 0) -> tuple[str, ...]:
    return of.at(host, 443, now, never)


@pytest.fixture
def of() -> Reach:
    of = Reach()
    of.replace([bound("api")], 0, never)
    return of


def test_a_binding_in_force_has_no_end_and_reaches_nowhere_else(of: Reach) -> None:
    assert names(of, now=1e12) == ("api",)
    assert names(of, "b.example") == ()
    assert of.at("a.example", 8443, 0, never) == ()


@pytest.mark.parametrize("after", [[], [bound("api", "b.example")]], ids=["removed", "bound elsewhere"])
def test_a_binding_that_is_over_counts_for_an_hour(of: Reach, after: list[SecretSpec]) -> None:
    of.replace(after, 10, never)
    assert names(of, now=10 + KEPT - 1) == ("api",)
    assert names(of, now=10 + KEPT) == ()
    assert names(of, "b.example", now=1e12) == tuple(spec.name for spec in after)


def test_an_unchanged_reload_does_not_prolong_what_is_over(of: Reach) -> None:
    of.replace([], 0, never)
    of.replace([], KEPT - 1, never)
    assert names(of, now=KEPT) == ()


def test_a_binding_that_comes_back_has_no_end_again(of: Reach) -> None:
    of.replace([], 0, never)
    of.replace([bound("api")], 1, never)
    assert names(of, now=1e12) == ("api",)


def test_while_it_is_carried_it_stays(of: Reach) -> None:
    of.replace([], 0, never)
    of.replace([], 2 * KEPT, lambda name: name == "api")
    assert of.at("a.example", 443, 2 * KEPT, lambda _: True) == ("api",)
    of.replace([], 2 * KEPT, never)
    assert of.at("a.example", 443, 2 * KEPT, lambda _: True) == ()


def test_exchanges_may_go_by_rules_before_they_are_warmed_and_after(of: Reach) -> None:
    new = bound("new")
    assert of.note([new], 0)
    assert not of.note([new], KEPT - 1)
    assert names(of) == ("api", "new")
    assert of.note([new], KEPT), "it counts again when it is used again"


def test_the_number_of_those_that_are_over_is_bounded(of: Reach, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "MOST", 3)
    for number in range(10):
        of.replace([bound("api"), bound(f"n{number}")], number, never)
    assert set(names(of)) == {"api", "n6", "n7", "n8", "n9"}
