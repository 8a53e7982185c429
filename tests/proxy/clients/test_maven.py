"""Maven resolves through the proxy what a project needs, from a private repository too.

Maven takes its proxy from settings.xml; newer versions do not look at the properties of the JVM. Whom it
trusts is the business of the JVM.
"""

from __future__ import annotations

import zipfile
from dataclasses import replace

import pytest

from tests.proxy.clients import denied_host, password_proxy
from tests.proxy.clients.client import Ask, Client, printed
from tests.proxy.clients.program import Ran
from tests.proxy.clients.scene import unlocked
from tests.proxy.clients.stage import Stage
from tests.proxy.clients.standins.home_leftovers import kept_a_mask
from tests.proxy.clients.standins.incompressible import ballast, is_whole
from tests.proxy.clients.standins.maven import jar, project, repository
from tests.proxy.clients.standins.static_files import shelve
from tests.proxy.clients.standins.truststore import IMPORT, TRUST
from tests.proxy.lab.proxy_stack import NAME, OTHER
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = [
    pytest.mark.system("mvn", "maven"),
    pytest.mark.system("keytool", "default-jdk-headless"),
]

AT = "/maven"
JAR = ".m2/repository/test/lab/tiny/1/tiny-1.jar"
SETTINGS = """\
<settings>
  <proxies>
    <proxy>
      <active>true</active><protocol>https</protocol><host>{proxy_host}</host><port>{proxy_port}</port>
    </proxy>
  </proxies>
</settings>
"""


def command(ask: Ask) -> tuple[str, ...]:
    return "mvn", "--batch-mode", "--no-transfer-progress", "validate"


MAVEN = Client(
    name="Maven",
    family="Java",
    version=printed("mvn", "--version", at=r"(?<=Apache Maven )[\d.]+"),
    command=command,
    variables={"JAVA_TOOL_OPTIONS": TRUST},
    files={".m2/settings.xml": SETTINGS},
    before=(IMPORT,),
    # A JVM takes the home directory from the list of users, whatever HOME says.
    around={"MAVEN_OPTS": "-Duser.home={home} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    denied="status: 403 Egress host.unknown (egress log suggest ID)",
)


async def resolve(stage: Stage[RawUpstream], at: str = AT, host: str = NAME, client: Client = MAVEN) -> Ran:
    """Have Maven look at a project that needs something of the repository there."""
    (stage.home / "pom.xml").write_text(project(stage.url(at, host)))
    return await stage.ask(client, "get", at, host)


def asked(stage: Stage[RawUpstream]) -> list[str]:
    """What was asked for, in the order of admitted; some of it comes at the same time."""
    return [request.path for request in stage.scene.upstream.requests]


@MAVEN.proves("plain", "install")
async def test_a_jar_is_resolved(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, repository(AT))
    ran = await resolve(stage, host=OTHER)
    assert ran.status == 0, ran.text
    assert (stage.home / JAR).read_bytes() == jar()
    assert not [line for line in stage.scene.stack.exchanges() if line["injected"]]


@MAVEN.proves("injected")
async def test_a_private_repository_is_given_the_credential(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, repository(AT))
    ran = await resolve(stage)
    assert ran.status == 0, ran.text
    assert (stage.home / JAR).read_bytes() == jar()
    unlocked(stage.scene.upstream, *asked(stage))
    kept_a_mask(stage.home)


@MAVEN.proves("refusal")
async def test_a_refusal_shows_why(stage: Stage[RawUpstream]) -> None:
    ran = await resolve(stage, "/private", NAME)
    assert ran.status != 0
    assert "status: 403 Egress rule.denied" in ran.text
    assert not stage.scene.upstream.links


@MAVEN.proves("denied")
async def test_a_denied_host_shows_why(stage: Stage[RawUpstream]) -> None:
    ran = await resolve(stage, AT, denied_host.NOWHERE)
    denied_host.shown(stage, MAVEN, ran)


async def test_a_password_in_the_settings_is_given(stage: Stage[RawUpstream]) -> None:
    told = await password_proxy.guarded(stage, MAVEN)
    given = f"<username>any</username><password>{password_proxy.PASSWORD}</password></proxy>"
    settings = {place: text.replace("</proxy>", given) for place, text in told.files.items()}
    shelve(stage.scene.upstream, repository(AT))
    ran = await resolve(stage, client=replace(told, files=settings))
    assert ran.status == 0, ran.text
    unlocked(stage.scene.upstream, *asked(stage))


@MAVEN.proves("large")
@pytest.mark.nightly
async def test_a_large_jar_arrives_whole(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, repository(AT, ballast()))
    ran = await resolve(stage)
    assert ran.status == 0, ran.text
    assert is_whole(zipfile.ZipFile(stage.home / JAR).read("ballast"))
