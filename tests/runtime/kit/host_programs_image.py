"""Containers with the programs of this machine: it lends them, read-only, and all else is the image's own.

So every client that there is here can be tried behind a real door, in a container of a real engine, and
nothing has to be fetched or copied. The image holds what programs want to find in /etc, as `host` of the
namespaces shows it, and no root of trust but those of the distribution. /usr/local is the image's own: the
kit lays a file there.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from egress.runtime import passwd_files
from egress.runtime.docker import image_tree
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.image_tree import ImageTree
from egress.runtime.errors import ImageMissingError
from egress.runtime.namespace import host_image
from egress.runtime.spec import Mount

REPOSITORY: Final = "egress-test-machine"
LENT: Final = (
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/share",
    "/usr/include",
)


PROGRAMS: Final = {
    **{
        name: name for name in ("curl", "wget", "git", "openssl", "node", "npm", "go", "cargo", "ruby", "php")
    },
    "python urllib": "python3",
    "java": "javac",
    "perl LWP": "lwp-request",
    "apt": "apt-get",
}
"""By which program it is seen that a stack is there."""


def installed() -> set[str]:
    """The stacks that are there for every user of this machine."""
    return {stack for stack, program in PROGRAMS.items() if shutil.which(program, path="/usr/bin:/bin")}


def image(engine: DockerEngine) -> str:
    """The image; made once per content."""
    with image_tree.spool_archive(_tree()) as (archive, digest):
        name = f"{REPOSITORY}:{digest[:16]}"
        try:
            engine.image_id(name)
        except ImageMissingError:
            engine.import_image(archive, REPOSITORY, digest[:16])
    return name


def lent() -> tuple[Mount, ...]:
    """What a container of it is to be lent."""
    return tuple(_mount(place) for place in LENT if Path(place).is_dir())


def python(venvs: Iterable[Path], given: tuple[str, ...]) -> tuple[Mount, ...]:
    """Pythons with packages, and the one behind them, but for what a sandbox is `given` anyway."""
    places = (*venvs, *(Path(sys.base_prefix, part) for part in ("bin", "lib")))
    return tuple(_mount(str(each)) for each in places if not str(each).startswith(given))


def _mount(place: str) -> Mount:
    return Mount(source=Path(place).resolve(), target=place)


def _tree() -> ImageTree:
    tree = ImageTree()
    for path, data in (
        ("etc/passwd", passwd_files.passwd(1000, 1000)),
        ("etc/group", passwd_files.groups(1000)),
        ("etc/nsswitch.conf", host_image.NSSWITCH_FILE),
    ):
        tree.text(path, data)
    for path, source in _files(Path("/etc", name) for name in host_image.SHOWN_SETTINGS):
        if source.is_symlink():
            tree.link(path, str(source.readlink()))
        else:
            tree.text(path, source.read_bytes())
    for folder in (*LENT, "/usr/local/bin"):
        tree.folder(folder.removeprefix("/"))
    tree.folder("home/sandbox", mode=0o1777)
    return tree


def _files(places: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for place in places:
        found = [place] if place.is_symlink() or place.is_file() else sorted(place.rglob("*"))
        for each in found:
            if each.is_symlink() or each.is_file():
                yield str(each).removeprefix("/"), each
