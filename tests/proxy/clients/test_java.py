"""Java works through the proxy: its own two clients, and what stands on them.

A JVM reads no variable of its own accord but one, which holds the options that all of its programs get.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.proxy.clients import compiled_programs, denied_host, password_proxy, proofs
from tests.proxy.clients.client import Client, calling, printed, proving
from tests.proxy.clients.stage import Stage
from tests.proxy.clients.standins.truststore import IMPORT, TRUST
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = [
    pytest.mark.system("javac", "default-jdk-headless"),
    pytest.mark.system("keytool", "default-jdk-headless"),
]

OPTIONS = f"-Dhttps.proxyHost={{proxy_host}} -Dhttps.proxyPort={{proxy_port}} {TRUST}"


# A JVM that lives for a second has no use for its best compiler.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
PASSWORD = (
    "send a password that stands in a property: the program needs an `Authenticator`, and the JVM"
    " `-Djdk.http.auth.tunneling.disabledSchemes=`, with nothing behind it"
)
VARIABLE = "read `HTTPS_PROXY`: a JVM takes options"


def client(name: str, main: str, denied: str) -> Client:
    return Client(
        name=name,
        family="Java",
        version=printed("java", "-version"),
        command=calling("java", *QUICK, "-cp", compiled_programs.JAVA.folder, main),
        variables={"JAVA_TOOL_OPTIONS": OPTIONS},
        before=(IMPORT,),
        cannot={"password of the proxy": PASSWORD, "HTTPS_PROXY": VARIABLE},
        denied=denied,
    )


JAVA = client("HttpClient", "WithHttpClient", "403 host.unknown")
OLD = client("HttpURLConnection", "WithUrlConnection", denied_host.REASON)


@pytest.fixture(autouse=True)
def program(request: pytest.FixtureRequest) -> None:
    compiled_programs.JAVA.require(request)


@proving("plain", JAVA, OLD)
async def test_a_page_arrives(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.plain(stage, client)


@proving("injected", JAVA, OLD)
async def test_the_credential_is_injected(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.injected(stage, client)


@proving("refusal", JAVA, OLD)
async def test_a_refusal_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.refusal(stage, client)


@proving("denied", JAVA, OLD)
async def test_a_denied_host_shows_why(stage: Stage[RawUpstream], client: Client) -> None:
    await denied_host.host(stage, client)


@proving("password of the proxy", JAVA, OLD)
async def test_a_password_is_not_given(stage: Stage[RawUpstream], client: Client) -> None:
    """These two properties exist; a browser's plug-in read them."""
    told = await password_proxy.guarded(stage, client)
    user = f"-Dhttps.proxyUser=any -Dhttps.proxyPassword={password_proxy.PASSWORD}"
    options = f"{told.variables['JAVA_TOOL_OPTIONS']} {user}"
    ran = await stage.ask(replace(told, variables={"JAVA_TOOL_OPTIONS": options}), "get", "/small")
    assert ran.status != 0
    assert "proxy.authentication" in ran.err
    assert not stage.scene.upstream.links


@proving("HTTPS_PROXY", JAVA, OLD)
async def test_a_variable_is_not_read(stage: Stage[RawUpstream], client: Client) -> None:
    told = replace(client, variables={"JAVA_TOOL_OPTIONS": TRUST, "HTTPS_PROXY": "{proxy}"})
    ran = await stage.ask(told, "get", "/small")
    assert ran.status != 0
    assert not stage.scene.stack.lines()


@proving("large", JAVA, OLD)
async def test_a_large_page_arrives_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.large(stage, client)


@proving("upload", JAVA, OLD)
async def test_a_large_file_goes_up_whole(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.upload(stage, client)


@proving("streaming", JAVA, OLD)
async def test_a_stream_is_read_as_it_comes(stage: Stage[RawUpstream], client: Client) -> None:
    await proofs.streaming(stage, client)


@JAVA.proves("websocket")
async def test_a_websocket_opens(stage: Stage[RawUpstream]) -> None:
    await proofs.websocket(stage, JAVA)


@JAVA.proves("http2")
async def test_http2_is_spoken_where_the_rules_open_it(tmp_path: Path) -> None:
    await proofs.http2(tmp_path, JAVA)
