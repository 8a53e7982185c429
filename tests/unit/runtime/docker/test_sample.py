"""An admission that is nobody's."""

from __future__ import annotations

from egress.ca import public_roots
from egress.runtime.docker.sample import admission
from egress.runtime.dressing import kitted
from egress.runtime.gateway import Admission
from egress.runtime.protocol import Entrance


def test_it_shows_the_form_of_every_outfit() -> None:
    """But for the name of one file, which nothing is mounted of."""
    from egress.ca import Authority

    other = Admission("one", Authority.create("one", now=0).certificate_pem.decode())
    dress = kitted(public_roots())
    first, second = dress(admission(), Entrance("198.18.0.2")), dress(other, Entrance("198.18.0.10"))
    assert (first.folder, first.overmounts) == (second.folder, second.overmounts)
    assert set(first.overmounts.values()) <= second.files.keys()


def test_it_is_made_once_and_holds_no_key() -> None:
    assert admission() is admission()
    assert "PRIVATE" not in admission().authority
