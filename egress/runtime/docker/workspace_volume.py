"""The working folder of a sandbox: a volume of its own, which is made to belong to its user.

A new volume belongs to root, or to whom the image says, and nobody in the sandbox may change that. So it is
shown to a container of the door's image that never runs, and the engine is given an archive for it that
holds the folder with its owner and nothing else. No program of the sandbox's image has a part in it.
"""

from __future__ import annotations

import io
import tarfile
from typing import Final

from egress.runtime.docker import labels
from egress.runtime.docker.engine import DockerEngine

_FOLDER_NAME: Final = "workspace"
_FOLDER_MODE: Final = 0o755


def give_to_user(engine: DockerEngine, image: str, volume: str, lease: str, owner: tuple[int, int]) -> None:
    """Let a volume belong to a user and a group. `image` is any that is not the sandbox's own."""
    config = {
        "Image": image,
        "Entrypoint": ["/never-run"],
        "Labels": labels.owner_labels(labels.ROLE_WORKSPACE, lease),
        "HostConfig": {
            "NetworkMode": "none",
            "Mounts": [{"Type": "volume", "Source": volume, "Target": f"/{_FOLDER_NAME}"}],
        },
    }
    container = engine.create_container(f"{volume}-owner", config)
    try:
        engine.put_archive(container, "/", owned_folder_archive(*owner))
    finally:
        engine.remove_container(container)


def owned_folder_archive(user: int, group: int) -> bytes:
    """The archive. Pure."""
    entry = tarfile.TarInfo(_FOLDER_NAME)
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, _FOLDER_MODE, user, group
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(entry)
    return out.getvalue()
