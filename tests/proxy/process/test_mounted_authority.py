"""Which authority of a mounted file signs. `tests/cluster/test_authority_rotation` changes it under load."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from egress.ca.authority import Authority
from egress.ca.issue import new_key, root_certificate
from egress.ca.keyfile import MAX_AUTHORITIES, as_pem
from egress.errors import ContentError
from egress.proxy.lanes.engine import ServedSandbox
from egress.proxy.process import mounted_authority
from egress.proxy.process.mounted_authority import MountedAuthority
from egress.types import Identity

NOW = 1_795_000_000
LIFE = 1000


def authority(life: int) -> bytes:
    key = new_key()
    return as_pem(key, root_certificate("gateway", key, NOW, life))


class Follower:
    """A file that is followed, and a sandbox."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.moment = path, NOW
        self.write(data)
        current = Authority.load_mounted(path, NOW)
        self.sandbox = ServedSandbox(Identity("s", None), current, b"")
        self.follower = MountedAuthority(path, lambda: [self.sandbox], lambda: self.moment, current)

    def write(self, data: bytes) -> None:
        self.path.unlink(missing_ok=True)
        self.path.write_bytes(data)
        self.path.chmod(0o440)

    async def signs(self, data: bytes) -> None:
        """Wait until this authority signs."""
        wanted = data[data.index(b"-----BEGIN CERTIFICATE") :]
        async with asyncio.timeout(20):
            while self.sandbox.authority.certificate_pem != wanted:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounted_authority, "POLL_INTERVAL", 0.01)


async def test_the_older_one_signs_until_it_ends_or_is_taken_out(tmp_path: Path) -> None:
    first, second, third = authority(LIFE), authority(10 * LIFE), authority(20 * LIFE)
    found = Follower(tmp_path / "authority.pem", first)
    task = asyncio.create_task(found.follower.run())
    found.write(first + second)
    await asyncio.sleep(0.1)
    await found.signs(first)
    found.moment = NOW + LIFE
    await found.signs(second)
    found.write(third)
    await found.signs(third)
    found.path.unlink()
    await asyncio.sleep(0.1)
    await found.signs(third)
    assert not task.done()
    task.cancel()


async def test_a_change_between_the_first_reading_and_the_first_look_is_seen(tmp_path: Path) -> None:
    found = Follower(tmp_path / "authority.pem", authority(LIFE))
    second = authority(LIFE)
    found.write(second)
    task = asyncio.create_task(found.follower.run())
    await found.signs(second)
    task.cancel()


def test_a_file_has_a_bounded_number_of_authorities(tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    file.write_bytes(authority(LIFE) * (MAX_AUTHORITIES + 1))
    file.chmod(0o440)
    with pytest.raises(ContentError, match="more than 2"):
        Authority.load_mounted(file, NOW)


def test_of_two_none_may_be_broken(tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    whole = authority(LIFE)
    file.write_bytes(whole + whole[:-40])
    file.chmod(0o440)
    with pytest.raises(ContentError, match="no certificate authority"):
        Authority.load_mounted(file, NOW)
