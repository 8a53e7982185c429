"""The place of previews: what keeps an address from being used, and how it is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from egress.errors import UsageError
from egress.fleet.preview_address import PreviewPlace
from egress.fleet.preview_listener import listen_at
from egress.proxy.setting_values import ListenAddress

DOMAIN = "previews.example.com"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "10.0.0.1"])
def test_beyond_loopback_there_is_no_preview_without_tls_and_a_domain(host: str) -> None:
    with pytest.raises(UsageError, match="need TLS"):
        listen_at(PreviewPlace(at=ListenAddress(host, 8443), domain=DOMAIN))
    secure = PreviewPlace(at=ListenAddress(host, 8443), certificate=Path("c"), key=Path("k"))
    with pytest.raises(UsageError, match="need a domain"):
        listen_at(secure)
    replace(secure, domain=DOMAIN).check()


def test_a_certificate_and_its_key_belong_together() -> None:
    at = ListenAddress("127.0.0.1", 8443)
    for place in (PreviewPlace(at=at, certificate=Path("c")), PreviewPlace(at=at, key=Path("k"))):
        with pytest.raises(UsageError, match="belong together"):
            place.check()


@pytest.mark.parametrize(
    "domain",
    [
        *("", ".", "a..b", ".example.com", "example.com.", "*.example.com", "Example.com", "a b", "a:80"),
        *("-a.example", "192.0.2.1", "[::1]", "a_b.example", "xn--ü.example"),
        *("a" * 64 + ".example", ".".join(["abcdefgh"] * 21)),
    ],
)
def test_a_domain_is_one(domain: str) -> None:
    with pytest.raises(UsageError, match="not a domain"):
        PreviewPlace(at=ListenAddress("127.0.0.1", 8443), domain=domain).check()


@pytest.mark.parametrize(
    ("port", "secure", "url"),
    [
        (8080, False, "http://*.previews.example.com:8080"),
        (80, False, "http://*.previews.example.com"),
        (443, False, "http://*.previews.example.com:443"),
        (443, True, "https://*.previews.example.com"),
    ],
)
def test_the_port_that_goes_without_saying_is_not_said(port: int, secure: bool, url: str) -> None:
    place = PreviewPlace(at=ListenAddress("127.0.0.1", port), domain=DOMAIN)
    assert (replace(place, certificate=Path("c"), key=Path("k")) if secure else place).url == url
