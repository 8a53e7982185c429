"""Perl works through the proxy: HTTP::Tiny, which is part of it, and LWP."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.proxy.clients import denied_host, password_proxy, proofs
from tests.proxy.clients.client import PROGRAMS, Client, calling, printed, proving
from tests.proxy.clients.stage import Stage
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = pytest.mark.system("lwp-request", "liblwp-protocol-https-perl")

TINY = Client(
    name="HTTP::Tiny",
    family="Perl",
    version=printed("perl", "-MHTTP::Tiny", "-e", "print HTTP::Tiny->VERSION"),
    command=calling("perl", PROGRAMS / "perl/with_http_tiny.pl"),
    variables={"https_proxy": "{proxy}", "SSL_CERT_FILE": "{bundle}"},
    program="`verify_SSL => 1`: before 0.083 it asks nobody who they are, and any certificate will do",
    denied=denied_host.REASON,
)
LWP = Client(
    name="LWP",
    family="Perl",
    version=printed("perl", "-MLWP", "-e", "print LWP->VERSION"),
    command=calling("perl", PROGRAMS / "perl/with_lwp.pl"),
    variables={
        "https_proxy": "{proxy}",
        "PERL_LWP_ENV_PROXY": "1",
        "PERL_LWP_SSL_CA_FILE": "{bundle}",
    },
    cannot={
        "SSL_CERT_FILE": "read `SSL_CERT_FILE`",
        "PERL_LWP_ENV_PROXY": "read `https_proxy` without `PERL_LWP_ENV_PROXY=1`, or `env_proxy` in the"
        " program",
    },
    denied=denied_host.REASON,
)


def without(client: Client, variable: str) -> Client:
    return replace(
        client, variables={name: text for name, text in client.variables.items() if name != variable}
    )


@proving("plain", TINY, LWP)
async def test_a_page_arrives(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.plain(stage, client)


@proving("injected", TINY, LWP)
async def test_the_credential_is_injected(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.injected(stage, client)


@proving("refusal", TINY, LWP)
async def test_a_refusal_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.refusal(stage, client)


@proving("denied", TINY, LWP)
async def test_a_denied_host_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await denied_host.host(stage, client)


@proving("password", TINY, LWP)
async def test_a_password_is_given(stage: Stage[RawUpstream], client: Client) -> None:
    await password_proxy.password(stage, client)


@LWP.proves("PERL_LWP_ENV_PROXY")
async def test_lwp_looks_at_no_proxy_by_itself(stage: Stage[RawUpstream]) -> None:
    ran = await stage.ask(without(LWP, "PERL_LWP_ENV_PROXY"), "get", "/small")
    assert ran.status != 0
    assert not stage.scene.stack.lines()


@LWP.proves("SSL_CERT_FILE")
async def test_lwp_goes_past_the_variable_that_others_read(stage: Stage[RawUpstream]) -> None:
    told = without(LWP, "PERL_LWP_SSL_CA_FILE")
    ran = await stage.ask(
        replace(told, variables={**told.variables, "SSL_CERT_FILE": "{bundle}"}), "get", "/small"
    )
    assert ran.status != 0
    assert "certificate verify failed" in ran.err
    assert not stage.scene.upstream.links


async def test_tiny_believes_nobody_without_the_certificate(stage: Stage[RawUpstream]) -> None:
    """What `program` says does what it says."""
    ran = await stage.ask(without(TINY, "SSL_CERT_FILE"), "get", "/small")
    assert ran.status != 0
    assert "certificate verify failed" in ran.err
    assert not stage.scene.upstream.links


@proving("large", TINY, LWP)
async def test_a_large_page_arrives_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.large(stage, client)


@proving("upload", TINY, LWP)
async def test_a_large_file_goes_up_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.upload(stage, client)


@proving("streaming", TINY, LWP)
async def test_a_stream_is_read_as_it_comes(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.streaming(stage, client)
