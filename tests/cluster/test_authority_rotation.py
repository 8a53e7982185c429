"""F21: a gateway whose authority is renewed under load, with clients as old and as new pods.

The file changes as a kubelet changes it: a link leads to another folder from one moment to the next.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography import x509

from egress.ca import new_authority_file
from egress.proxy.clock import SystemClock
from tests.cluster.gateway_lab import PODS, GatewayLab, outcome
from tests.proxy.injecting_proxy import NAME
from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import RefusedError, connect
from tests.proxy.serve_process import until
from tests.unit.kubernetes.watch_samples import plain_pod


class MountedFile:
    """A file of a Secret, as a kubelet mounts it."""

    def __init__(self, folder: Path, data: bytes) -> None:
        self.folder, self.count = folder, 0
        folder.mkdir()
        self.path = folder / "authority.pem"
        self.path.symlink_to("..data/authority.pem")
        self.become(data)

    def become(self, data: bytes) -> None:
        self.count += 1
        version = self.folder / f"..{self.count}"
        version.mkdir()
        (version / "authority.pem").write_bytes(data)
        (version / "authority.pem").chmod(0o440)
        (self.folder / "..new").symlink_to(version.name)
        (self.folder / "..new").replace(self.folder / "..data")


def certificate(file: bytes) -> bytes:
    return file[file.index(b"-----BEGIN CERTIFICATE-----") :]


@dataclass
class Pod:
    """A pod that makes requests, each on a connection of its own, and trusts what it was given."""

    lab: GatewayLab
    trust: bytes
    requests: int = 0
    failures: list[str] = field(default_factory=list)
    issuers: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.address = self.lab.address()
        self.lab.put(PODS, plain_pod(self.lab.name("job"), 0, self.address))

    async def ask(self) -> None:
        context = trusting(self.trust, ("http/1.1",))
        to = ("127.0.0.1", self.lab.upstream.port)
        proxy = (self.lab.gateway, self.lab.served.port)
        async with await connect(to, NAME, context, proxy=proxy, source=self.address) as peer:
            shown = peer.channel.certificate
            assert shown is not None
            assert outcome(await peer.get("/echo", self.lab.host)) == (200, "")
        self.issuers.add(x509.load_der_x509_certificate(shown).issuer.rfc4514_string())
        self.requests += 1

    async def work(self) -> None:
        while True:
            try:
                await self.ask()
            except (OSError, EndedError, RefusedError, AssertionError) as error:
                self.failures.append(repr(error))

    async def works_on(self, count: int = 5) -> None:
        """Wait for more requests."""
        goal = self.requests + count
        async with asyncio.timeout(30):
            while self.requests < goal:
                assert not self.failures
                await asyncio.sleep(0.01)


@pytest.fixture
def files() -> tuple[bytes, bytes]:
    """The old authority and the new one."""
    now = SystemClock().now()
    return new_authority_file("gateway", now), new_authority_file("gateway", now)


@pytest.fixture
def mounted(tmp_path: Path, files: tuple[bytes, bytes]) -> MountedFile:
    return MountedFile(tmp_path / "mounted", files[0])


@pytest.fixture
def lab(tmp_path: Path, files: tuple[bytes, bytes], mounted: MountedFile) -> Iterator[GatewayLab]:
    with GatewayLab(tmp_path, "--authority-file", str(mounted.path)) as lab:
        lab.authority = certificate(files[0])
        yield lab


async def test_no_pod_meets_a_certificate_that_it_refuses(
    lab: GatewayLab, files: tuple[bytes, bytes], mounted: MountedFile
) -> None:
    old, new = files
    async with asyncio.TaskGroup() as group:

        async def begun(trust: bytes) -> tuple[Pod, asyncio.Task[None]]:
            pod = Pod(lab, trust)
            await lab.becomes(pod.address, 200)
            return pod, group.create_task(pod.work())

        first, first_work = await begun(certificate(old))
        await first.works_on()
        # Renewed: pods that start from here on trust both, and the older ones the old authority alone.
        mounted.become(old + new)
        second, second_work = await begun(certificate(old) + certificate(new))
        await asyncio.gather(first.works_on(20), second.works_on(20))
        # The older pods are gone, and the old authority leaves the Secret.
        first_work.cancel()
        mounted.become(new)
        changed = await asyncio.to_thread(until, lambda: lab.served.logged("authority.changed"))
        lab.authority = certificate(new)
        third, third_work = await begun(certificate(new))
        await asyncio.gather(second.works_on(20), third.works_on(20))
        second_work.cancel()
        third_work.cancel()
    assert [each.failures for each in (first, second, third)] == [[], [], []]
    # The load has met both authorities, and the change between them.
    assert [len(each.issuers) for each in (first, second, third)] == [1, 2, 1]
    assert len(changed) == 1
    # A pod that trusts the old authority alone would be cut off by now.
    late = Pod(lab, certificate(old))
    with pytest.raises(ssl.SSLCertVerificationError):
        await late.ask()


async def test_a_file_that_cannot_be_used_changes_nothing(
    lab: GatewayLab, files: tuple[bytes, bytes], mounted: MountedFile
) -> None:
    pod = Pod(lab, certificate(files[0]))
    await lab.becomes(pod.address, 200)
    mounted.become(b"-----BEGIN PRIVATE KEY-----\ncanary-of-a-key\n")
    [refused] = await asyncio.to_thread(until, lambda: lab.served.logged("authority.refused"))
    assert "canary" not in str(refused)
    await pod.ask()
    mounted.become(files[1])
    await asyncio.to_thread(until, lambda: lab.served.logged("authority.changed"))
    pod.trust = certificate(files[1])
    await pod.ask()
