"""What a client leaves behind at home, after it has fetched something with a credential it never had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.proxy.clients.scene import MASK, SECRET


def kept_nothing(home: Path) -> None:
    """No file below holds the credential; an index, a cache and a log are places where it could stand."""
    contents = list(_contents(home))
    assert contents, "this client has written nothing, so this proves nothing"
    assert not [True for content in contents if SECRET.encode() in content]


def kept_a_mask(home: Path) -> None:
    """What was said of the credential is kept, and in the place of the credential a mask."""
    kept_nothing(home)
    assert [True for content in _contents(home) if f"Bearer {MASK}".encode() in content]


def _contents(home: Path) -> Iterator[bytes]:
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path.read_bytes()
