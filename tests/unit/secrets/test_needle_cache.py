"""The cache of compiled searches."""

from __future__ import annotations

import pytest

from egress.scrub import Needles
from egress.secrets import source_value as values
from egress.secrets.needle_cache import MAX_CACHED_SETS, LogNeedles, NeedleCache, compile_needles
from egress.secrets.source_value import SourceValue
from egress.secrets.value_history import KnownValue
from tests.unit.secrets.secret_samples import OTHER, TOKEN

GITHUB = KnownValue("github", SourceValue(TOKEN), None)
MIRROR = KnownValue("mirror", SourceValue(OTHER), None)


def test_finds_every_value_by_the_name_of_its_secret() -> None:
    needles = compile_needles((GITHUB, MIRROR))
    assert needles.mask(TOKEN + b" " + OTHER).found == {"github": 1, "mirror": 1}


def test_a_value_with_two_names_is_found_by_both() -> None:
    twin = KnownValue("twin", GITHUB.value, None)
    assert compile_needles((GITHUB, twin)).mask(TOKEN).found == {"github": 1, "twin": 1}


def test_is_made_once_for_each_set() -> None:
    searches = NeedleCache()
    first = searches.of((GITHUB,))
    assert searches.of((GITHUB,)) is first
    assert searches.of((GITHUB, MIRROR)) is not first
    assert len(searches.of(())) == 0


def test_dropping_a_secret_keeps_the_sets_without_it() -> None:
    searches = NeedleCache()
    other = KnownValue("other", SourceValue(OTHER), None)
    both, others = searches.of((GITHUB, MIRROR)), searches.of((MIRROR, other))
    searches.drop("github")
    assert searches.of((MIRROR, other)) is others
    assert searches.of((GITHUB, MIRROR)) is not both


def test_keeps_a_bounded_number() -> None:
    searches = NeedleCache()
    short = SourceValue(b"short")
    for _ in range(3 * MAX_CACHED_SETS):
        searches.of((KnownValue("x", short, None),))
    assert len(searches._made) <= MAX_CACHED_SETS
    assert len(searches.of(())) == 0


def test_everything_is_joined_once_for_each_set() -> None:
    everything = LogNeedles()
    first = everything.of((GITHUB,))
    assert everything.of((GITHUB,)) is first
    assert first.mask(TOKEN + OTHER).found == {"github": 1}
    both = everything.of((GITHUB, MIRROR))
    assert both.mask(TOKEN + OTHER).found == {"github": 1, "mirror": 1}
    assert not everything.of(()).mask(TOKEN).hits


def test_a_value_that_comes_in_is_compiled_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a start each secret is told in the log, and each line is searched for all that is known by then."""
    compilations: list[int] = []

    def counting(names: dict[bytes, tuple[str, ...]]) -> Needles:
        compilations.append(len(names))
        return Needles(names)

    monkeypatch.setattr(values, "Needles", counting)
    known = tuple(KnownValue(f"s{n}", SourceValue(b"value-number-%d" % n), None) for n in range(9))
    everything = LogNeedles()
    for count in range(1, 10):
        everything.of(known[:count])
        everything.of(known[:count])
    assert len(compilations) == 9
    everything.of((*known[1:], KnownValue("s0", SourceValue(b"another-value"), None)))
    assert len(compilations) == 10
