"""What lies in a sandbox before anybody's files do; making them is for the tests with an engine."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from egress.runtime.docker.unassigned_container import (
    UnassignedContainer,
    mount_placeholders,
)
from egress.runtime.protocol import Provisions
from egress.runtime.spec import Spec

OUTFIT = Provisions(
    files={"/etc/egress/bundle.pem": b"roots", "/etc/egress/ca.pem": b"one"},
    overmounts={"/etc/ssl/cert.pem": "/etc/egress/bundle.pem"},
    variables={"A": "b"},
)


def test_nothing_of_an_outfit_is_there_but_the_places_of_its_mounts() -> None:
    empty = mount_placeholders(OUTFIT)
    assert empty.files == {"/etc/egress/bundle.pem": b""}
    assert (empty.overmounts, dict(empty.variables)) == (OUTFIT.overmounts, {})


@pytest.mark.parametrize(
    ("outfit", "fits"),
    [
        (OUTFIT, True),
        (Provisions(files=OUTFIT.files, overmounts=OUTFIT.overmounts), True),
        (Provisions(files=OUTFIT.files), False),
        (Provisions(folder="/etc/other", overmounts=OUTFIT.overmounts), False),
    ],
)
def test_another_outfit_fits_where_the_same_is_mounted(outfit: Provisions, fits: bool) -> None:
    spec = Spec(name="ready", image="any")
    blank = UnassignedContainer(spec, "id", None, "c", mount_placeholders(OUTFIT), None, ExitStack())  # type: ignore[arg-type]
    assert blank.fits(outfit) is fits
