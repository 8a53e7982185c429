"""apt updates and installs through the proxy, in a root of its own: the one of the system is not touched."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from egress.errors import CODES
from egress.proxy.ingress.listener import Listener, listen
from tests.proxy.clients import denied_host, password_proxy
from tests.proxy.clients.client import Client, printed
from tests.proxy.clients.program import Ran
from tests.proxy.clients.scene import unlocked
from tests.proxy.clients.stage import Stage
from tests.proxy.clients.standins.debian import APART, FOLDERS, archive, sources
from tests.proxy.clients.standins.home_leftovers import kept_a_mask
from tests.proxy.clients.standins.incompressible import ballast, is_whole
from tests.proxy.clients.standins.static_files import shelve
from tests.proxy.lab.proxy_stack import NAME, OTHER, SANDBOX
from tests.proxy.lab.raw_upstream import RawUpstream

pytestmark = pytest.mark.system("apt-get", "apt")

AT = "/debian"
CONTENT = b"hello\n"


APT = Client(
    name="apt",
    family="Debian",
    version=printed("apt-get", "--version"),
    # In /etc/apt/apt.conf.d the file serves everybody, and needs no variable.
    variables={"APT_CONFIG": "{home}/egress-apt.conf"},
    files={"egress-apt.conf": 'Acquire::https::Proxy "{proxy}";\nAcquire::https::CAInfo "{bundle}";\n'},
    denied="403  Egress host.unknown (egress log suggest ID)",
)


async def update(
    stage: Stage[RawUpstream], at: str = AT, host: str = NAME, client: Client = APT, *options: str
) -> Ran:
    """Have an apt whose root is at home fetch the lists of one archive."""
    await stage.prepare(client)
    for folder in FOLDERS:
        (stage.home / folder).mkdir(parents=True, exist_ok=True)
    (stage.home / "var/lib/dpkg/status").touch()
    (stage.home / "etc/apt/sources.list").write_text(sources(stage.url(at, host)))
    # Behind what the user has written there, as only this file is read before all others.
    with (stage.home / "egress-apt.conf").open("a") as config:
        config.write(stage.filled(APART))
    return await stage.run(client, "apt-get", "update", *options)


async def install(stage: Stage[RawUpstream], host: str, client: Client = APT) -> Ran:
    """Have it install the package, too."""
    updated = await update(stage, AT, host, client)
    assert (updated.status, updated.err) == (0, "")
    return await stage.run(client, "apt-get", "--yes", "install", "tiny")


def asked(stage: Stage[RawUpstream]) -> list[str]:
    return [request.path for request in stage.scene.upstream.requests]


@APT.proves("plain", "install")
async def test_a_package_is_installed(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, archive(AT, CONTENT))
    ran = await install(stage, OTHER)
    assert ran.status == 0, ran.err
    assert (stage.home / "usr/share/tiny").read_bytes() == CONTENT
    assert asked(stage)[-1] == f"{AT}/pool/tiny.deb"
    assert not [line for line in stage.scene.stack.exchanges() if line["injected"]]


@APT.proves("injected")
async def test_a_private_archive_is_given_the_credential(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, archive(AT, CONTENT))
    ran = await install(stage, NAME)
    assert ran.status == 0, ran.err
    assert (stage.home / "usr/share/tiny").read_bytes() == CONTENT
    unlocked(stage.scene.upstream, *asked(stage))
    kept_a_mask(stage.home)


@APT.proves("refusal")
async def test_a_refusal_shows_why(stage: Stage[RawUpstream]) -> None:
    ran = await update(stage, "/private")
    assert ran.status != 0
    assert "403  Egress rule.denied" in ran.err
    assert not stage.scene.upstream.links


@APT.proves("denied")
async def test_a_denied_host_is_an_error_that_shows_why(stage: Stage[RawUpstream]) -> None:
    """Refused at the CONNECT it would only be a warning, and the status 0."""
    ran = await update(stage, AT, denied_host.NOWHERE)
    denied_host.shown(stage, APT, ran)


@APT.proves("password")
async def test_a_password_is_given(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, archive(AT, CONTENT))
    ran = await install(stage, NAME, await password_proxy.guarded(stage, APT))
    assert ran.status == 0, ran.err
    unlocked(stage.scene.upstream, *asked(stage))


@APT.proves("large")
async def test_a_large_package_arrives_whole(stage: Stage[RawUpstream]) -> None:
    shelve(stage.scene.upstream, archive(AT, ballast()))
    ran = await install(stage, NAME)
    assert ran.status == 0, ran.err
    assert is_whole((stage.home / "usr/share/tiny").read_bytes())
    unlocked(stage.scene.upstream, *asked(stage))


@contextmanager
def readable(stage: Stage[RawUpstream]) -> Iterator[Stage[RawUpstream]]:
    """The stage with a home that apt's own user can use: where that user cannot read, apt stays root."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        bundle = Path(shutil.copy(stage.bundle, home))
        bundle.chmod(0o644)
        for place in FOLDERS:
            (home / place).mkdir(parents=True, exist_ok=True)
        for partial in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
            shutil.chown(home / partial, "_apt")
        yield replace(stage, home=home, bundle=bundle)


@pytest.mark.skipif(os.geteuid() != 0, reason="apt changes its user only as root")
async def test_the_user_of_apt_is_refused_with_a_cure_that_works(stage: Stage[RawUpstream]) -> None:
    """The downloads of apt run as `_apt`, and a listener on loopback serves its owner alone: here root."""
    shelve(stage.scene.upstream, archive(AT, CONTENT))
    own = Listener("own", "proxy", SANDBOX, listen("127.0.0.1", 0), "owner-uid")
    _, port = await stage.scene.stack.door.open(own)
    told = {name: text.replace("{proxy}", f"http://127.0.0.1:{port}") for name, text in APT.files.items()}
    client = replace(APT, files=told)
    with readable(stage) as seen:
        ran = await update(seen, AT, OTHER, client, "-o", "APT::Sandbox::User=_apt")
        assert "403 Egress proxy.identity (egress log suggest " in ran.err, ran.err
        assert not stage.scene.upstream.links
        assert "-o APT::Sandbox::User=NAME" in CODES["proxy.identity"].hint
        ran = await update(seen, AT, OTHER, client, "-o", "APT::Sandbox::User=root")
        assert (ran.status, ran.err) == (0, "")
