"""What an image is here: `host`, or the root folder of another system on this machine."""

from __future__ import annotations

from pathlib import Path

from egress.runtime import mounts
from egress.runtime.errors import ImageMissingError
from egress.runtime.namespace import host_image
from egress.runtime.spec import Mount


def image_root(image: str, guarded: tuple[Path, ...] = ()) -> Path | None:
    """The root folder that is meant; None for the programs of this machine.

    Raises `ImageMissingError`, or `MountError` for a folder that no sandbox gets.
    """
    if image == host_image.IMAGE_NAME:
        return None
    if not image.startswith("/"):
        raise ImageMissingError(
            f"there is no image {image}: this runtime has no engine that would know one",
            f"take `{host_image.IMAGE_NAME}` for the programs of this machine, or the whole path of "
            f"a root folder",
        )
    found = Path(image)
    if not (found / "bin").is_dir() or not (found / "usr").is_dir():
        raise ImageMissingError(
            f"{image} is not the root folder of a system", "it would hold bin and usr; unpack one there"
        )
    (checked,) = mounts.check_mounts((Mount(source=found, target="/image"),), guarded)
    return checked.source
