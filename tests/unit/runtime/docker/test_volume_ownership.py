"""The archive that gives a folder away."""

from __future__ import annotations

import io
import tarfile

from egress.runtime.docker.volume_ownership import owned_folder_archive


def test_it_holds_the_folder_and_nothing_else() -> None:
    with tarfile.open(fileobj=io.BytesIO(owned_folder_archive(7, 8))) as tar:
        [entry] = tar.getmembers()
    assert (entry.name, entry.isdir(), entry.uid, entry.gid, entry.mode) == ("workspace", True, 7, 8, 0o755)
