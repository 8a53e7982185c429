"""Finds an image again that was made of files of this machine, without reading those files.

Theory of operation. An image of this machine's files is named by a digest of them, and to know that they must
all be read: too long for every run. So it gets a second name, a fingerprint of where they lie, how large they
are and when they were last written. Where the engine knows that name, nothing has changed. Where it does not,
the files are read; most often the image is there by their digest, and is only given the new name.

Which libraries the files need is not known beforehand. Instead of them the folders count in which libraries
are, and the loader's cache of them: whoever installs one changes these. One that is written over in place is
not noticed before something else changes.
"""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from egress.runtime.docker import local_image
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.errors import ImageMissingError

_TAG_PREFIX: Final = "stat-"
_DIGEST_LENGTH: Final = 16


def find_or_make(engine: DockerEngine, repository: str, seen: str, make: Callable[[], str]) -> str:
    """The name of the image that was made when the files were seen like that; `make` is asked where none was.

    `make` returns a name that the engine knows.
    """
    tag = f"{_TAG_PREFIX}{seen[:_DIGEST_LENGTH]}"
    name = f"{repository}:{tag}"
    try:
        engine.image_id(name)
    except ImageMissingError:
        engine.tag_image(make(), repository, tag)
    return name


def fingerprint(files: Iterable[Path], settings: Iterable[str] = ()) -> str:
    """A digest of how these files are seen, with all that every image of this machine hangs on."""
    digest = hashlib.sha256()
    # How they are put together: another version of this program does it in another way.
    own = (Path(local_image.__file__), Path(__file__))
    for path in (*files, *own, local_image.interpreter(), *_library_folders()):
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
