"""The product images: the proxy, the sandbox with tools, the agents, and the door. Built once per content.

The name of an image holds a digest of its recipe, its files and its base. So an existing image is the right
one, and another version of Egress builds another image beside it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import bases, builder, downloads, recipes
from egress.runtime.docker.images.builder import NO_BUILD_PROGRESS, BuildProgress
from egress.runtime.docker.images.recipes import Recipe
from egress.runtime.errors import ImageMissingError

PROXY_REPOSITORY: Final = "egress-proxy"
SANDBOX_REPOSITORY: Final = "egress-sandbox"
AGENTS_REPOSITORY: Final = "egress-agents"
DOOR_REPOSITORY: Final = "egress-door-built"


def proxy_image(
    engine: DockerEngine, base: str | None = None, progress: BuildProgress = NO_BUILD_PROGRESS
) -> str:
    """The proxy image, on a base with this version of Python and pip; by default a base of this Python.

    Packages are fetched here, with their hashes checked, so the build needs no network. Raises `EngineError`,
    or `UnsupportedError` if packages cannot be fetched.
    """
    base = base or bases.find_or_make_python(engine, progress.step)
    recipe = recipes.for_proxy()
    name = _name(engine, PROXY_REPOSITORY, recipe, base)
    if _is_there(engine, name):
        return name
    progress.step("downloading the packages of the proxy")
    return _build_with_wheels(engine, recipe, name, base, recipes.lock(), progress, is_offline=True)


def sandbox_image(
    engine: DockerEngine, base: str | None = None, progress: BuildProgress = NO_BUILD_PROGRESS
) -> str:
    """The sandbox image with tools, on a Debian base; by default a base built here from packages.

    Node is downloaded here, with its hash checked; the other tools are packages of the base's distribution.
    Raises `EngineError`, or `UnsupportedError` if no base can be built or Node cannot be downloaded.
    """
    base = base or bases.find_or_make_debian(engine, progress)
    recipe = recipes.for_sandbox()
    name = _name(engine, SANDBOX_REPOSITORY, recipe, base)
    if _is_there(engine, name):
        return name
    progress.step("downloading Node")
    return _build_with_wheels(engine, recipe, name, base, recipes.node_lock(), progress, is_offline=False)


def agents_image(
    engine: DockerEngine, base: str | None = None, progress: BuildProgress = NO_BUILD_PROGRESS
) -> str:
    """The image with coding agents, on a base with Node and npm; by default on the sandbox image.

    The agents are downloaded here, with their hashes checked, so the build needs no network. Raises
    `EngineError`, or `UnsupportedError` if they cannot be downloaded.
    """
    base = base or sandbox_image(engine, None, progress)
    recipe = recipes.for_agents()
    name = _name(engine, AGENTS_REPOSITORY, recipe, base)
    if _is_there(engine, name):
        return name
    with tempfile.TemporaryDirectory(prefix="egress-agents-") as folder:
        progress.step("downloading the agents (about 500 MB)")
        (node,) = downloads.fetch_wheels(recipes.node_lock(), Path(folder), progress.output)
        modules = downloads.fetch_modules(recipes.folder() / "agents", node, Path(folder), progress.output)
        more = {"modules/node_modules": modules}
        return builder.build(engine, recipe, name, {"BASE_IMAGE": base}, more, progress, is_offline=True)


def door_image(
    engine: DockerEngine, base: str | None = None, progress: BuildProgress = NO_BUILD_PROGRESS
) -> str:
    """The door image, on a base with Python. Sandboxes use the image of `door_container.image` instead."""
    base = base or bases.find_or_make_python(engine, progress.step)
    recipe = recipes.for_door()
    name = _name(engine, DOOR_REPOSITORY, recipe, base)
    if _is_there(engine, name):
        return name
    return builder.build(engine, recipe, name, {"BASE_IMAGE": base}, progress=progress, is_offline=True)


def tag_for_user(engine: DockerEngine, image: str, name: str) -> None:
    """Give an image a second name: `NAME` or `NAME:TAG`. Raises `ImageMissingError`."""
    # A slash after the last colon means that the colon belongs to a registry's port.
    repository, _, tag = name.rpartition(":")
    if not repository or "/" in tag:
        repository, tag = name, "latest"
    engine.tag_image(image, repository, tag)


def _build_with_wheels(
    engine: DockerEngine,
    recipe: Recipe,
    name: str,
    base: str,
    lock: Path,
    progress: BuildProgress,
    *,
    is_offline: bool,
) -> str:
    """Build with the packages that a lock file names, which pip finds in the context and nowhere else."""
    with tempfile.TemporaryDirectory(prefix="egress-wheels-") as folder:
        found = downloads.fetch_wheels(lock, Path(folder), progress.output)
        wheels = {f"wheels/{wheel.name}": wheel for wheel in found}
        arguments = {"BASE_IMAGE": base, "PIP_NO_INDEX": "1"}
        return builder.build(engine, recipe, name, arguments, wheels, progress, is_offline=is_offline)


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


MAKERS: Final = {"sandbox": sandbox_image, "agents": agents_image, "proxy": proxy_image}
"""The images that users build, by name."""
