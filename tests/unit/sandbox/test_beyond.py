"""What a fleet does besides running sandboxes is asked of a fleet, and missed with a word elsewhere."""

from __future__ import annotations

import pytest

from egress.fleet import Fleet
from egress.fleet.protocol import About
from egress.fleet.terms import FOREVER, Terms
from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.fake import FakeRuntime
from egress.runtime.spec import Spec
from egress.sandbox.beyond import HOST, image_of, make, previewing

SPEC = Spec(name="one", image="any")


def fleet(kind: str) -> Fleet:
    return Fleet(FakeRuntime(), about=About(kind=kind), tick=None)


def test_terms_are_a_fleets() -> None:
    terms = Terms(timeout=5)
    home = fleet("fake")
    assert make(home, SPEC, terms).name == "one"
    assert home.standing("one").terms == terms
    assert make(FakeRuntime(), SPEC, FOREVER).name == "one"
    with pytest.raises(UnsupportedError):
        make(FakeRuntime(), SPEC, terms)


def test_ports_are_shown_by_a_fleet() -> None:
    home = fleet("fake")
    assert previewing(home) is home
    with pytest.raises(UnsupportedError, match="shows ports"):
        previewing(FakeRuntime())


def test_an_image_is_chosen_by_the_kind_of_sandboxes() -> None:
    assert image_of(fleet("docker"), "mine") == "mine"
    assert image_of(fleet("namespace"), None) == HOST
    for runtime in (FakeRuntime(), fleet("fake")):
        with pytest.raises(SpecError, match="image"):
            image_of(runtime, None)
