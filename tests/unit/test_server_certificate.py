"""The certificate of a server of ours is found unusable when it is read, and named."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.server_certificate import server_context
from tests.proxy.lab.certificates import Certificates


def test_a_certificate_with_its_key_makes_a_server(tmp_path: Path) -> None:
    context = server_context(*Certificates().write_leaf(tmp_path, "boxes.example.com"), "--cert")
    assert context.protocol is ssl.PROTOCOL_TLS_SERVER
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("content", [None, "", "no PEM"])
def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    certificate, key = Certificates().write_leaf(tmp_path, "boxes.example.com")
    certificate.unlink()
    if content is not None:
        certificate.write_text(content)
    with pytest.raises(UnreadableError, match=r"leaf\.pem cannot be used") as caught:
        server_context(certificate, key, "--cert and --key")
    assert caught.value.hint.endswith("with --cert and --key")


def test_a_key_with_a_password_asks_nobody(tmp_path: Path) -> None:
    certificate, key = Certificates().write_leaf(tmp_path, "boxes.example.com")
    key.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n")
    with pytest.raises(UnreadableError, match="without a password"):
        server_context(certificate, key, "--cert")
