"""Resolves an image of the namespace runtime: `host`, or the root folder of another system."""

from __future__ import annotations

from pathlib import Path

from egress.runtime import mount_check
from egress.runtime.errors import ImageMissingError
from egress.runtime.namespace import host_image
from egress.runtime.spec import Mount


def image_root(image: str, guarded: tuple[Path, ...] = ()) -> Path | None:
    """The root folder of an image; None for the programs of this machine.

    Raises `ImageMissingError`, or `MountError` for a folder that no sandbox may see.
    """
    if image == host_image.IMAGE_NAME:
        return None
    if not image.startswith("/"):
        raise ImageMissingError(
            f"no image {image}: the namespace runtime has no image store",
            f"use `{host_image.IMAGE_NAME}` for the programs of this machine, or the absolute path of "
            f"a root folder",
        )
    found = Path(image)
    if not (found / "bin").is_dir() or not (found / "usr").is_dir():
        raise ImageMissingError(
            f"{image} is not the root folder of a system",
            "it needs the folders bin and usr; unpack a root file system there",
        )
    (checked,) = mount_check.check_mounts((Mount(source=found, target="/image"),), guarded)
    return checked.source
