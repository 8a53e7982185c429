"""Base images for the recipes on a machine without a registry.

The Python base is made of the files of this Python, within a second: enough for the proxy and the door. The
Debian base is made by `debootstrap` from this machine's own apt sources. The recipes stay the same; they get
the name as `BASE_IMAGE`.
"""

from __future__ import annotations

import ensurepip
import os
import shutil
import subprocess
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from egress.runtime.docker import image_tree, superseded_images
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.image_tree import ImageTree
from egress.runtime.docker.images import downloads
from egress.runtime.docker.images.builder import (
    NO_BUILD_PROGRESS,
    BuildProgress,
    ProgressCallback,
    ignore_progress,
)
from egress.runtime.errors import ImageMissingError, UnsupportedError

PYTHON_BASE: Final = "egress-base-python"
DEBIAN_BASE: Final = "egress-base-debian"
PROGRAM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IMAGE_SETTINGS: Final = (f"ENV PATH={PROGRAM_PATH}", 'CMD ["python3"]')
BASE_LIBRARIES: Final = (
    *(
        "libc.so.6",
        "libdl.so.2",
        "libm.so.6",
        "libpthread.so.0",
        "libresolv.so.2",
        "librt.so.1",
        "libutil.so.1",
    ),
    *("libatomic.so.1", "libgcc_s.so.1", "libstdc++.so.6", "libz.so.1"),
)
"""Libraries that compiled Linux wheels expect (PEP 600)."""
_EXCLUDED_PATHS: Final = ("./dev/*", "./proc/*", "./sys/*", "./var/cache/apt/*", "./var/lib/apt/lists/*")


def find_or_make_python(engine: DockerEngine, say: ProgressCallback = ignore_progress) -> str:
    """The name of a base with this Python, its library and pip, without a shell."""
    return import_tree(engine, python_tree(), PYTHON_BASE, _IMAGE_SETTINGS, say)


def python_tree() -> ImageTree:
    """The files of the Python base."""
    tree = image_tree.small_system_tree(())
    for name in BASE_LIBRARIES:
        if found := library(name):
            tree.library(found)
            tree.libraries(found)
    folder = Path(image_tree.PYTHON_PATH).parent.parent / "lib" / Path(image_tree.PYTHON_PATH).name
    with zipfile.ZipFile(_pip()) as wheel:
        for name in wheel.namelist():
            tree.text(f"{str(folder).removeprefix('/')}/site-packages/{name}", wheel.read(name))
    return tree


def import_tree(
    engine: DockerEngine, tree: ImageTree, repository: str, changes: tuple[str, ...], say: ProgressCallback
) -> str:
    """The name of the image with these files, made if it is missing."""
    with image_tree.spool_archive(tree) as (archive, digest):
        # The digest leaves the settings out: they change only with the version, which changes the files too.
        name = f"{repository}:{digest[:16]}"
        try:
            engine.image_id(name)
        except ImageMissingError:
            say(f"building {name} from the files of this machine")
            engine.import_image(archive, repository, digest[:16], changes)
            superseded_images.remove_superseded(engine, repository)
    return name


def find_or_make_debian(engine: DockerEngine, progress: BuildProgress = NO_BUILD_PROGRESS) -> str:
    """The name of the Debian base. If it is missing, making it takes half a minute and root.

    One base per release; remove the image to get a newer one. Raises `UnsupportedError`.
    """
    mirror, release = _package_source()
    name = f"{DEBIAN_BASE}:{release}"
    try:
        engine.image_id(name)
    except ImageMissingError:
        _require_debootstrap()
        progress.step(f"building {name} from packages")
        with _bootstrap(mirror, release, progress.output) as archive:
            engine.import_image(archive, DEBIAN_BASE, release, ('CMD ["/bin/sh"]',))
    return name


def _require_debootstrap() -> None:
    if shutil.which("debootstrap", path=f"{os.defpath}:{PROGRAM_PATH}") is None:
        raise UnsupportedError(
            "debootstrap is not installed", "apt-get install debootstrap, or name a base image"
        )
    if os.geteuid() != 0:
        raise UnsupportedError(
            "building a base from packages needs root", "run as root, or name a base image"
        )


def _package_source() -> tuple[str, str]:
    """The package mirror of this machine, and its release."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        said = ""
    words = (said.splitlines() or [""])[0].split()
    if len(words) != 2:
        raise UnsupportedError("this machine has no apt package source", "name a base image")
    return words[0], words[1]


@contextmanager
def _bootstrap(mirror: str, release: str, output: ProgressCallback) -> Iterator[BinaryIO]:
    with tempfile.TemporaryDirectory(prefix="egress-base-") as place, tempfile.TemporaryFile() as archive:
        root = Path(place, "root")
        include = "--include=ca-certificates"
        environ = {"PATH": PROGRAM_PATH, "LC_ALL": "C"}
        command = ["debootstrap", "--variant=minbase", include, release, str(root), mirror]
        try:
            status = downloads.run_with_output(command, output, env=environ)
        finally:
            # debootstrap mounts /proc and /sys, and leaves them mounted if it is interrupted.
            _unmount(root)
        if status:
            raise UnsupportedError(
                "debootstrap failed", f"run `debootstrap {release} FOLDER` to see its output"
            )
        left_out = [f"--exclude={pattern}" for pattern in _EXCLUDED_PATHS]
        subprocess.run(["tar", "-C", str(root), *left_out, "-c", "."], stdout=archive, check=True)  # noqa: S607
        archive.seek(0)
        yield archive


def _unmount(root: Path) -> None:
    """Unmount leftovers of an interrupted bootstrap, so that the cleanup does not delete their files."""
    for name in ("proc", "sys"):
        if (root / name).is_mount():
            subprocess.run(["umount", str(root / name)], check=True)  # noqa: S607


def library(name: str) -> Path | None:
    """The path of a library on this machine."""
    several = str(sysconfig.get_config_var("MULTIARCH") or "")
    places = (f"/usr/lib/{several}", f"/lib/{several}", "/usr/lib64", "/lib64", "/usr/lib", "/lib")
    return next((found for place in places if (found := Path(place, name)).exists()), None)


def _pip() -> Path:
    """The pip wheel that comes with Python."""
    # Some distributions move it, and record the folder.
    elsewhere = sysconfig.get_config_var("WHEEL_PKG_DIR")
    for folder in (Path(ensurepip.__file__).with_name("_bundled"), Path(str(elsewhere or "/nonexistent"))):
        if wheels := sorted(folder.glob("pip-*.whl")):
            return wheels[-1]
    raise UnsupportedError("this Python has no bundled pip", "install its `ensurepip` (Debian: python3-venv)")
