"""What lies in a sandbox before anybody's files do; making them is for the tests with an engine."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from egress.runtime.docker.blanks import Blank, _Aside, unworn
from egress.runtime.protocol import Outfit
from egress.runtime.spec import Spec

OUTFIT = Outfit(
    files={"/etc/egress/bundle.pem": b"roots", "/etc/egress/ca.pem": b"one"},
    overmounts={"/etc/ssl/cert.pem": "/etc/egress/bundle.pem"},
    variables={"A": "b"},
)


def test_nothing_of_an_outfit_is_there_but_the_places_of_its_mounts() -> None:
    empty = unworn(OUTFIT)
    assert empty.files == {"/etc/egress/bundle.pem": b""}
    assert (empty.overmounts, dict(empty.variables)) == (OUTFIT.overmounts, {})


@pytest.mark.parametrize(
    ("outfit", "fits"),
    [
        (OUTFIT, True),
        (Outfit(files=OUTFIT.files, overmounts=OUTFIT.overmounts), True),
        (Outfit(files=OUTFIT.files), False),
        (Outfit(folder="/etc/other", overmounts=OUTFIT.overmounts), False),
    ],
)
def test_another_outfit_fits_where_the_same_is_mounted(outfit: Outfit, fits: bool) -> None:
    spec = Spec(name="ready", image="any")
    blank = Blank(spec, "id", None, "c", unworn(OUTFIT), None, ExitStack())  # type: ignore[arg-type]
    assert blank.fits(outfit) is fits


def broken() -> None:
    raise ZeroDivisionError


def test_what_goes_wrong_meanwhile_is_told_in_the_end() -> None:
    failing = _Aside(broken)
    failing.join()
    with pytest.raises(ZeroDivisionError):
        failing.result()
    _Aside(lambda: None).result()
