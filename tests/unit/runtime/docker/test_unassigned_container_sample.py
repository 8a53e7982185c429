"""An admission that is nobody's."""

from __future__ import annotations

from egress.ca import public_roots
from egress.runtime.docker.unassigned_container import dummy_admission
from egress.runtime.provisioning import trust_kit_provisioner
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission


def test_it_shows_the_form_of_every_outfit() -> None:
    """But for the name of one file, which nothing is mounted of."""
    from egress.ca import Authority

    other = Admission("one", Authority.create("one", now=0).certificate_pem.decode())
    dress = trust_kit_provisioner(public_roots())
    first, second = (
        dress(dummy_admission(), ProxyAddress("198.18.0.2")),
        dress(other, ProxyAddress("198.18.0.10")),
    )
    assert (first.folder, first.overmounts) == (second.folder, second.overmounts)
    assert set(first.overmounts.values()) <= second.files.keys()


def test_it_is_made_once_and_holds_no_key() -> None:
    assert dummy_admission() is dummy_admission()
    assert "PRIVATE" not in dummy_admission().authority
