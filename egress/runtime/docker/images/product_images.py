"""The product images: the proxy, the sandbox with tools, and the door. Built once per content.

The name of an image holds a digest of its recipe, its files and its base. So an existing image is the right
one, and another version of Egress builds another image beside it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import bases, builder, recipes, wheels
from egress.runtime.docker.images.builder import ProgressCallback, ignore_progress
from egress.runtime.docker.images.recipes import Recipe
from egress.runtime.errors import ImageMissingError

PROXY_REPOSITORY: Final = "egress-proxy"
SANDBOX_REPOSITORY: Final = "egress-sandbox"
DOOR_REPOSITORY: Final = "egress-door-built"


def proxy_image(
    engine: DockerEngine, base: str | None = None, say: ProgressCallback = ignore_progress
) -> str:
    """The proxy image, on a base with this version of Python and pip; by default a base of this Python.

    Packages are fetched here, with their hashes checked, so the build needs no network. Raises `EngineError`,
    or `UnsupportedError` if packages cannot be fetched.
    """
    base = base or bases.find_or_make_python(engine, say)
    recipe = recipes.for_proxy()
    name = _name(engine, PROXY_REPOSITORY, recipe, base)
    if _is_there(engine, name):
        return name
    with tempfile.TemporaryDirectory(prefix="egress-wheels-") as folder:
        say("downloading the packages of the proxy")
        found = wheels.fetch(recipes.lock(), Path(folder))
        more = {f"wheels/{wheel.name}": wheel for wheel in found}
        arguments = {"BASE_IMAGE": base, "PIP_NO_INDEX": "1"}
        return builder.build(engine, recipe, name, arguments, more, say, is_offline=True)


def sandbox_image(
    engine: DockerEngine, base: str | None = None, say: ProgressCallback = ignore_progress
) -> str:
    """The sandbox image with tools, on a Debian base; by default a base built here from packages.

    Raises `EngineError`, or `UnsupportedError` if no base can be built.
    """
    base = base or bases.find_or_make_debian(engine, say)
    return _find_or_build(engine, SANDBOX_REPOSITORY, recipes.for_sandbox(), base, say, is_offline=False)


def door_image(engine: DockerEngine, base: str | None = None, say: ProgressCallback = ignore_progress) -> str:
    """The door image, on a base with Python. Sandboxes use the image of `door_container.image` instead."""
    base = base or bases.find_or_make_python(engine, say)
    return _find_or_build(engine, DOOR_REPOSITORY, recipes.for_door(), base, say, is_offline=True)


def tag_for_user(engine: DockerEngine, image: str, name: str) -> None:
    """Give an image a second name: `NAME` or `NAME:TAG`. Raises `ImageMissingError`."""
    # A slash after the last colon means that the colon belongs to a registry's port.
    repository, _, tag = name.rpartition(":")
    if not repository or "/" in tag:
        repository, tag = name, "latest"
    engine.tag_image(image, repository, tag)


def _find_or_build(
    engine: DockerEngine,
    repository: str,
    recipe: Recipe,
    base: str,
    say: ProgressCallback,
    *,
    is_offline: bool,
) -> str:
    name = _name(engine, repository, recipe, base)
    if _is_there(engine, name):
        return name
    return builder.build(engine, recipe, name, {"BASE_IMAGE": base}, say=say, is_offline=is_offline)


def _name(engine: DockerEngine, repository: str, recipe: Recipe, base: str) -> str:
    try:
        known = engine.image_id(base)
    except ImageMissingError:
        # The engine may pull the base: its name stands in for the unknown id.
        known = base
    return f"{repository}:{recipe.digest(known)[:16]}"


def _is_there(engine: DockerEngine, name: str) -> bool:
    try:
        engine.image_id(name)
    except ImageMissingError:
        return False
    return True
