"""What a fleet does besides running sandboxes is asked of a fleet, and missed with a word elsewhere."""

from __future__ import annotations

import pytest

from egress.fleet import Fleet
from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime
from egress.fleet.protocol import FleetInfo
from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.fake import FakeRuntime
from egress.runtime.spec import Spec
from egress.sandbox.capabilities import HOST_IMAGE, choose_image, create_sandbox, require_fleet

SPEC = Spec(name="one", image="any")


def fleet(kind: str) -> Fleet:
    return Fleet(FakeRuntime(), about=FleetInfo(kind=kind), tick=None)


def test_terms_are_a_fleets() -> None:
    terms = SandboxLifetime(timeout=5)
    home = fleet("fake")
    assert create_sandbox(home, SPEC, terms).name == "one"
    assert home.status("one").terms == terms
    assert create_sandbox(FakeRuntime(), SPEC, NO_TIME_LIMIT).name == "one"
    with pytest.raises(UnsupportedError):
        create_sandbox(FakeRuntime(), SPEC, terms)


def test_ports_are_shown_by_a_fleet() -> None:
    home = fleet("fake")
    assert require_fleet(home, "expose ports") is home
    with pytest.raises(UnsupportedError, match="expose ports"):
        require_fleet(FakeRuntime(), "expose ports")


def test_an_image_is_chosen_by_the_kind_of_sandboxes() -> None:
    assert choose_image(fleet("docker"), "mine") == "mine"
    assert choose_image(fleet("namespace"), None) == HOST_IMAGE
    for runtime in (FakeRuntime(), fleet("fake")):
        with pytest.raises(SpecError, match="image"):
            choose_image(runtime, None)
