"""Trust comes from certifi and named files, and whatever would weaken it stops the start."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from mitmproxy.net import tls as stock
from mitmproxy.options import Options
from mitmproxy.optmanager import OptManager

from egress.addons.contexts import Upstream
from egress.addons.trust import refuse_weakened, trusted_roots
from egress.ca.bundle import certificates, public_roots
from egress.errors import UsageError
from tests.addons.handshake import Pair, serving, upstream

HOST = "api.example.com"


def test_the_roots_are_the_public_ones_and_those_that_were_named(tmp_path: Path) -> None:
    ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
    place = tmp_path / "private.pem"
    ca.cert_pem.write_to_path(str(place))
    roots = trusted_roots([place])
    assert list(roots[:-1]) == list(certificates(public_roots()))
    assert roots[-1] == ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())
    server = upstream(ca.issue_cert(HOST))
    assert Pair(Upstream(roots).connecting(HOST, ()), serving(server)).run().is_up
    assert not Pair(Upstream(trusted_roots()).connecting(HOST, ()), serving(server)).run().is_up


def test_an_untouched_mitmproxy_may_start() -> None:
    refuse_weakened(Options())


def test_an_option_that_turns_verification_off_stops_the_start() -> None:
    with pytest.raises(UsageError, match="ssl_insecure"):
        refuse_weakened(Options(ssl_insecure=True))


@pytest.mark.parametrize("name", ["emudhra", "emudhra_old"])
def test_an_option_that_signs_with_a_published_key_stops_the_start(name: str) -> None:
    """Not in the release we use; in one that has it, it has to be off."""
    options = OptManager()
    options.add_option("ssl_insecure", bool, False, "")
    options.add_option(name, bool, False, "")
    refuse_weakened(options)
    setattr(options, name, True)
    with pytest.raises(UsageError, match=name):
        refuse_weakened(options)


def test_a_key_log_stops_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stock, "log_master_secret", stock.make_master_secret_logger(str(tmp_path / "keys")))
    with pytest.raises(UsageError, match="SSLKEYLOGFILE"):
        refuse_weakened(Options())
