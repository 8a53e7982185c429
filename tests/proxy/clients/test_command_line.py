"""The programs of a shell work through the proxy with what a user would set, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import ssl
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.proxy.clients import denied_host, password_proxy, proofs
from tests.proxy.clients.client import Ask, Client, printed, proving
from tests.proxy.clients.scene import certs
from tests.proxy.clients.stage import Stage, staged
from tests.proxy.lab.proxy_stack import NAME, OTHER
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = [
    pytest.mark.system("curl", "curl"),
    pytest.mark.system("wget", "wget"),
    pytest.mark.system("openssl", "openssl"),
]

FAMILY = "Command line"


def curl(ask: Ask) -> Sequence[str]:
    sent = ("--upload-file", str(ask.file)) if ask.file else ()
    shown = ("--no-buffer",) if ask.verb == "stream" else ()
    return ("curl", "--silent", "--show-error", "--fail-with-body", "--http2", *shown, *sent, ask.url)


def wget(ask: Ask) -> Sequence[str]:
    sent = ("--method=PUT", f"--body-file={ask.file}") if ask.file else ()
    return ("wget", "--no-verbose", "--output-document=-", *sent, ask.url)


def s_client(ask: Ask) -> Sequence[str]:
    """A request by hand. What the server says stands behind what s_client says of the handshake."""
    url = urlsplit(ask.url)
    head = f"GET {url.path}?{url.query} HTTP/1.1\\r\\nHost: {url.netloc}\\r\\nConnection: close\\r\\n\\r\\n"
    spoken = f"openssl s_client -quiet -verify_return_error -proxy $PROXY -connect {url.netloc}"
    # Without the head, and not well when the status says so.
    body = "sed -e '1,/^\\r$/d'"
    return ("sh", "-c", f"printf '{head}' | {spoken} -servername {url.hostname} | {body}")


CURL = Client(
    name="curl",
    family=FAMILY,
    version=printed("curl", "--version"),
    command=curl,
    variables={"HTTPS_PROXY": "{proxy}", "CURL_CA_BUNDLE": "{bundle}"},
    cannot={
        "pinning": "reach a host whose key it pins (`--pinnedpubkey`): it is shown another one. Such a host"
        " needs `intercept: never`, and gets no credential",
    },
    denied='"operator": "egress log suggest ID"',
)
WGET = Client(
    name="wget",
    family=FAMILY,
    version=printed("wget", "--version"),
    command=wget,
    variables={"https_proxy": "{proxy}"},
    files={".wgetrc": "ca_certificate = {bundle}\n"},
    cannot={"SSL_CERT_FILE": "read `SSL_CERT_FILE` where it is built with GnuTLS, as Debian does"},
    denied="ERROR 403: Egress host.unknown (egress log suggest ID).",
)
S_CLIENT = Client(
    name="openssl s_client",
    family=FAMILY,
    version=printed("openssl", "version"),
    command=s_client,
    variables={"SSL_CERT_FILE": "{bundle}"},
    around={"PROXY": "{proxy_host}:{proxy_port}"},
    program="`-proxy HOST:PORT`: it reads no variable for it",
)
BOTH = (CURL, WGET)


@proving("plain", *BOTH, S_CLIENT)
async def test_a_page_arrives(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.plain(stage, client)


@proving("injected", *BOTH, S_CLIENT)
async def test_the_credential_is_injected(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.injected(stage, client)


@proving("refusal", *BOTH)
async def test_a_refusal_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.refusal(stage, client)


@proving("denied", *BOTH)
async def test_a_denied_host_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await denied_host.host(stage, client)


@proving("password", *BOTH)
async def test_a_password_is_given(stage: Stage[RawUpstream], client: Client) -> None:
    await password_proxy.password(stage, client)


@proving("large", *BOTH, S_CLIENT)
async def test_a_large_page_arrives_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.large(stage, client)


@proving("upload", *BOTH)
async def test_a_large_file_goes_up_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.upload(stage, client)


@proving("streaming", *BOTH)
async def test_a_stream_is_read_as_it_comes(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.streaming(stage, client)


@proving("http2", CURL)
async def test_http2_is_spoken_on_both_sides(tmp_path: Path, client: Client) -> None:
    await proofs.http2(tmp_path, client)


@CURL.proves("pinning")
@pytest.mark.parametrize(("host", "is_met"), [(NAME, False), (OTHER, True)], ids=["intercepted", "never"])
async def test_a_pinned_key_is_met_only_where_nothing_is_intercepted(
    tmp_path: Path, host: str, is_met: bool
) -> None:
    chain, key = certs.write_leaf(tmp_path, NAME, OTHER)
    proof = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    proof.load_cert_chain(chain, key)
    upstream = RawUpstream(proof)
    async with staged(tmp_path, upstream, other="intercept: never") as stage:
        with stage.bundle.open("ab") as bundle:
            bundle.write(certs.ca_pem)
        asked = curl(Ask("get", stage.url("/bytes?n=10", host)))
        ran = await stage.run(CURL, *asked, "--pinnedpubkey", pin_of(chain))
        assert (ran.status, len(ran.out)) == ((0, 10) if is_met else (90, 0)), ran.err
        assert len(upstream.requests) == is_met


def pin_of(chain: Path) -> str:
    """The key of the first certificate, as curl writes it."""
    key = x509.load_pem_x509_certificate(chain.read_bytes()).public_key()
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256//{base64.b64encode(hashlib.sha256(der).digest()).decode()}"


@WGET.proves("SSL_CERT_FILE")
async def test_wget_does_not_read_the_variable_of_openssl(stage: Stage[RawUpstream]) -> None:
    told = replace(WGET, files={}, variables=WGET.variables | {"SSL_CERT_FILE": "{bundle}"})
    await proofs.distrust(stage, told)


@pytest.mark.parametrize("client", [CURL, WGET, S_CLIENT], ids=lambda client: client.name)
async def test_without_the_certificate_nothing_is_believed(stage: Stage[RawUpstream], client: Client) -> None:
    """What the other tests show rests on what was set, and not on a client that looks at nothing."""
    bare = {name: text for name, text in client.variables.items() if "PROXY" in name.upper()}
    await proofs.distrust(stage, replace(client, variables=bare, files={}))
