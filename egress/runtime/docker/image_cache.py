"""Finds an image of this machine's files again, without reading those files.

Theory of operation. An image of local files is named by a digest of their contents. Reading all of them takes
too long for every run. So the image gets a second name, a fingerprint of paths, sizes and modification times.
If the engine knows that name, no file has changed. Otherwise the files are read; usually the digest is known,
and the image only gets the new name.

The libraries that the files need are not known in advance. Instead the fingerprint covers the library folders
and the loader's cache: installing a library changes these. A library overwritten in place is noticed only
with the next other change.
"""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from egress.runtime.docker import elf_strip, image_tree, superseded_images
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.errors import ImageMissingError

_TAG_PREFIX: Final = "stat-"
_DIGEST_LENGTH: Final = 16


def find_or_make(engine: DockerEngine, repository: str, seen: str, make: Callable[[], str]) -> str:
    """The name of the image with this fingerprint; `make` is called if there is none.

    `make` returns the name of an image that the engine has.
    """
    name = find(engine, repository, seen)
    if name is None:
        name = _name(repository, seen)
        engine.tag_image(make(), repository, name.partition(":")[2])
        superseded_images.remove_old_names(engine, repository, name, _TAG_PREFIX)
    return name


def find(engine: DockerEngine, repository: str, seen: str) -> str | None:
    """The name of the image with this fingerprint; None if there is none."""
    name = _name(repository, seen)
    try:
        engine.image_id(name)
    except ImageMissingError:
        return None
    return name


def _name(repository: str, seen: str) -> str:
    return f"{repository}:{_TAG_PREFIX}{seen[:_DIGEST_LENGTH]}"


def fingerprint(files: Iterable[Path], settings: Iterable[str] = ()) -> str:
    """A digest of paths, sizes and times of these files, and of what all local images depend on."""
    digest = hashlib.sha256()
    # The code that makes the image counts: another version makes another image from the same files.
    own = (Path(image_tree.__file__), Path(elf_strip.__file__), Path(__file__))
    for path in (*files, *own, image_tree.interpreter(), *_library_folders()):
        digest.update(f"{path}\0{_file_facts(path)}\0".encode("utf-8", "surrogateescape"))
    for setting in settings:
        digest.update(f"{setting}\0".encode())
    return digest.hexdigest()


def _file_facts(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return "-"
    return f"{status.st_size} {status.st_mtime_ns}"


def _library_folders() -> tuple[Path, ...]:
    several = str(sysconfig.get_config_var("MULTIARCH") or "")
    folders = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
    own = (f"/lib/{several}", f"/usr/lib/{several}", f"/usr/local/lib/{several}") if several else ()
    return tuple(Path(each) for each in ("/etc/ld.so.cache", *folders, *own))
