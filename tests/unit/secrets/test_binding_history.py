"""Where a secret may come back from, and for how long after the rules have changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.rules.decide.policy import Binding, SecretSpec
from egress.rules.language.hosts import parse_host_pattern
from egress.secrets import binding_history
from egress.secrets.binding_history import BindingHistory
from egress.secrets.value_history import REPLACED_VALUE_LIFETIME
from tests.unit.secrets.secret_samples import spec


def bound(name: str, host: str = "a.example", port: int = 443) -> SecretSpec:
    return replace(spec(name, "env", "TOKEN"), bindings=(Binding(parse_host_pattern(host), port),))


def never(_: str) -> bool:
    return False


def names(of: BindingHistory, host: str = "a.example", *, now: float = 0) -> tuple[str, ...]:
    return of.names_at(host, 443, now, never)


@pytest.fixture
def of() -> BindingHistory:
    of = BindingHistory()
    of.replace([bound("api")], 0, never)
    return of


def test_a_binding_in_force_has_no_end_and_reaches_nowhere_else(of: BindingHistory) -> None:
    assert names(of, now=1e12) == ("api",)
    assert names(of, "b.example") == ()
    assert of.names_at("a.example", 8443, 0, never) == ()


@pytest.mark.parametrize("after", [[], [bound("api", "b.example")]], ids=["removed", "bound elsewhere"])
def test_a_binding_that_is_over_counts_for_an_hour(of: BindingHistory, after: list[SecretSpec]) -> None:
    of.replace(after, 10, never)
    assert names(of, now=10 + REPLACED_VALUE_LIFETIME - 1) == ("api",)
    assert names(of, now=10 + REPLACED_VALUE_LIFETIME) == ()
    assert names(of, "b.example", now=1e12) == tuple(spec.name for spec in after)


def test_an_unchanged_reload_does_not_prolong_what_is_over(of: BindingHistory) -> None:
    of.replace([], 0, never)
    of.replace([], REPLACED_VALUE_LIFETIME - 1, never)
    assert names(of, now=REPLACED_VALUE_LIFETIME) == ()


def test_a_binding_that_comes_back_has_no_end_again(of: BindingHistory) -> None:
    of.replace([], 0, never)
    of.replace([bound("api")], 1, never)
    assert names(of, now=1e12) == ("api",)


def test_while_it_is_carried_it_stays(of: BindingHistory) -> None:
    of.replace([], 0, never)
    of.replace([], 2 * REPLACED_VALUE_LIFETIME, lambda name: name == "api")
    assert of.names_at("a.example", 443, 2 * REPLACED_VALUE_LIFETIME, lambda _: True) == ("api",)
    of.replace([], 2 * REPLACED_VALUE_LIFETIME, never)
    assert of.names_at("a.example", 443, 2 * REPLACED_VALUE_LIFETIME, lambda _: True) == ()


def test_exchanges_may_go_by_rules_before_they_are_warmed_and_after(of: BindingHistory) -> None:
    new = bound("new")
    assert of.note([new], 0)
    assert not of.note([new], REPLACED_VALUE_LIFETIME - 1)
    assert names(of) == ("api", "new")
    assert of.note([new], REPLACED_VALUE_LIFETIME), "it counts again when it is used again"


def test_the_number_of_those_that_are_over_is_bounded(
    of: BindingHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding_history, "MAX_PAST_BINDINGS", 3)
    for number in range(10):
        of.replace([bound("api"), bound(f"n{number}")], number, never)
    assert set(names(of)) == {"api", "n6", "n7", "n8", "n9"}
