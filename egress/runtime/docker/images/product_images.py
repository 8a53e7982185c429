"""The product images: the proxy, the sandbox with tools, and the door. Built once per content.

The name of an image holds a digest of its recipe, its files and its base. So an existing image is the right
one, and another version of Egress builds another image beside it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import bases, builder, recipes
from egress.runtime.docker.images.builder import ProgressCallback, ignore_progress
from egress.runtime.docker.images.recipes import Recipe
from egress.runtime.errors import ImageMissingError, UnsupportedError

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
        found = fetch_wheels(recipes.lock(), Path(folder))
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


# Pip is used as this machine configured it: its index, its proxy and its trusted roots. Every file needs a
# hash of the lock file, and only wheels are accepted, so no downloaded code runs here.
_PIP_OPTIONS: Final = (
    "--quiet",
    "--disable-pip-version-check",
    "--no-input",
    "--require-hashes",
    "--only-binary=:all:",
)


def fetch_wheels(lock: Path, into: Path) -> list[Path]:
    """Download the packages of the lock file into a folder. Raises `UnsupportedError`."""
    command = [*_pip(), "download", *_PIP_OPTIONS, "--requirement", str(lock), "--dest", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnsupportedError(
            "cannot download the packages of the proxy",
            f"run `pip download --require-hashes -r {lock.name}` to see the error",
        )
    return sorted(into.glob("*.whl"))


def _pip() -> Sequence[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_exec_prefix, "bin", name)
    asked = [str(base), "-P", "-m", "pip", "--version"]
    if not base.exists() or subprocess.run(asked, capture_output=True, check=False).returncode:
        raise UnsupportedError("this Python has no pip", "python -m ensurepip")
    return [str(base), "-P", "-m", "pip"]
