"""Gives the workspace volume of a sandbox to its user.

A new volume belongs to root, or to the owner that the image sets, and no process in the sandbox may change
that. So the volume is mounted in a container of the door's image that never runs, and the engine unpacks an
archive there that holds the folder with its owner. No program of the sandbox's image takes part.
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
    """Give a volume to a user and a group. `image` is any image but the sandbox's own."""
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
    """The archive with the folder and its owner. Pure."""
    entry = tarfile.TarInfo(_FOLDER_NAME)
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, _FOLDER_MODE, user, group
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(entry)
    return out.getvalue()
