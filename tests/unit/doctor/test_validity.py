"""The time in a certificate is read by OpenSSL, in UTC."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from egress.ca.issue import CLOCK_SKEW, new_key, root_certificate
from egress.doctor.validity import load, validity
from egress.errors import ContentError

NOW = 1_795_000_000


def test_the_first_and_the_last_second_are_read() -> None:
    der = root_certificate("x", new_key(), NOW, 3600).public_bytes(Encoding.DER)
    assert validity(load(der)) == (NOW - CLOCK_SKEW, NOW + 3600)


def test_what_is_no_certificate_is_refused() -> None:
    with pytest.raises(ContentError, match="other than a certificate") as raised:
        load(b"0\x03\x02\x01\x01")
    assert raised.value.hint
