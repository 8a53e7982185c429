"""The cache of compiled searches."""

from __future__ import annotations

from egress.secrets.searches import MOST, Searches, compiled
from egress.secrets.trail import Known
from egress.secrets.value import Value
from tests.unit.secrets.rig import OTHER, TOKEN

GITHUB = Known("github", Value(TOKEN), None)
MIRROR = Known("mirror", Value(OTHER), None)


def test_finds_every_value_by_the_name_of_its_secret() -> None:
    needles = compiled((GITHUB, MIRROR))
    assert needles.mask(TOKEN + b" " + OTHER).found == {"github": 1, "mirror": 1}


def test_a_value_with_two_names_is_found_by_both() -> None:
    twin = Known("twin", GITHUB.value, None)
    assert compiled((GITHUB, twin)).mask(TOKEN).found == {"github": 1, "twin": 1}


def test_is_made_once_for_each_set() -> None:
    searches = Searches()
    first = searches.of((GITHUB,))
    assert searches.of((GITHUB,)) is first
    assert searches.of((GITHUB, MIRROR)) is not first
    assert len(searches.of(())) == 0


def test_dropping_a_secret_keeps_the_sets_without_it() -> None:
    searches = Searches()
    github, mirror = searches.of((GITHUB,)), searches.of((MIRROR,))
    searches.drop("github")
    assert searches.of((MIRROR,)) is mirror
    assert searches.of((GITHUB,)) is not github


def test_keeps_a_bounded_number() -> None:
    searches = Searches()
    short = Value(b"short")
    for _ in range(3 * MOST):
        searches.of((Known("x", short, None),))
    assert len(searches._made) <= MOST
    assert len(searches.of(())) == 0
