"""`--pin`: an upstream is held to its keys, beside everything else that it has to prove."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.proxy.injecting_proxy import BLIND, NAME, certs, made, visit
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import until


def pin_of(pem: bytes) -> str:
    key = x509.load_pem_x509_certificate(pem).public_key()
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    return f"sha256/{base64.b64encode(digest).decode('ascii')}"


RIGHT = pin_of(certs.ca_pem)
WRONG = f"sha256/{base64.b64encode(bytes(32)).decode('ascii')}"


@pytest.mark.parametrize(
    ("pins", "status"),
    [
        ([f"{NAME}={RIGHT}"], 200),
        ([f"{NAME}={WRONG}", f"{NAME}={RIGHT}"], 200),
        ([f"other.example.test={WRONG}"], 200),
        ([f"{NAME}={WRONG}"], 502),
        ([f"{NAME}={WRONG}", f"other.example.test={RIGHT}"], 502),
    ],
)
async def test_only_an_upstream_with_a_pinned_key_is_sent_anything(
    pins: list[str], status: int, tmp_path: Path
) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        served = made(tmp_path, upstream)
        served.arguments += [f"--pin={pin}" for pin in pins]
        with served:
            async with await visit(served, upstream) as peer:
                response = await peer.get("/echo", f"{NAME}:{upstream.port}")
            assert response.status == status
            (record,) = await asyncio.to_thread(served.recorded, "exchange")
        sent = [head for link in upstream.links for head in link.heads]
    if status == 200:
        assert len(sent) == 1
        return
    assert sent == []
    assert b'"upstream.tls"' in response.body
    assert record["code"] == "upstream.tls"
    (told,) = served.logged("tls.refused")
    assert "pinned" in str(told["reason"])


async def test_a_pin_for_a_host_that_is_not_read_is_told(tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        served = made(tmp_path, upstream)
        served.arguments += [f"--pin={BLIND}={WRONG}", f"--pin={NAME}={RIGHT}"]
        with served:
            (told,) = await asyncio.to_thread(until, lambda: served.logged("pin.unused"))
    assert told["host"] == BLIND
    assert "intercept: never" in str(told["cure"])
