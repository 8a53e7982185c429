"""A demo image, made within seconds from this machine's Python and tools.

No registry and no package index is used. The image holds a shell, common small tools, curl, git and Python of
this machine, and an unprivileged user. It runs on this machine only, for demonstrations and tests.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from egress.runtime.docker import image_cache, image_tree
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.image_tree import ImageTree
from egress.runtime.docker.images import bases
from egress.runtime.docker.images.builder import ignore_progress

REPOSITORY: Final = "egress-demo"
WORKSPACE_FOLDER: Final = "/workspace"
DEMO_USER_ID: Final = 1000
DEMO_PROGRAMS: Final = (
    *("sh", "bash", "env", "find", "grep", "sed", "awk", "tar", "gzip", "xargs", "curl", "git", "rg", "jq"),
    *("basename", "cat", "chmod", "cp", "cut", "date", "dd", "df", "diff", "dirname", "du", "echo", "expr"),
    *("false", "getent", "head", "hostname", "id", "kill", "ln", "ls", "mkdir", "mkfifo", "mktemp", "mv"),
    *("nproc", "od", "printenv", "printf", "ps", "pwd", "readlink", "realpath", "rm", "rmdir", "seq"),
    *("setsid", "sha256sum", "sleep", "sort", "stat", "stty", "tail", "tee", "test", "timeout", "touch"),
    *("tr", "true", "tty", "uname", "uniq", "wc", "whoami", "yes"),
)
_NAME_SERVICE_LIBRARIES: Final = ("libnss_files.so.2", "libnss_dns.so.2")
"""Libraries that programs linked against an older C library load by name."""
_IMAGE_SETTINGS: Final = (
    "ENV PATH=/usr/local/bin:/usr/bin:/bin",
    "ENV HOME=/home/sandbox",
    f"WORKDIR {WORKSPACE_FOLDER}",
    f"USER {DEMO_USER_ID}",
    'CMD ["/bin/sh"]',
)


def demo_image(engine: DockerEngine, say: Callable[[str], None] | None = None) -> str:
    """The name of the demo image, made if the engine has none with these contents.

    `say` is called once if it has to be made. Raises `EngineError`, or `UnsupportedError` if this Python
    cannot be copied.
    """
    return image_cache.find_or_make(
        engine,
        REPOSITORY,
        _fingerprint(),
        lambda: bases.import_tree(engine, demo_tree(), REPOSITORY, _IMAGE_SETTINGS, say or ignore_progress),
    )


def made_demo_image(engine: DockerEngine) -> str | None:
    """The name of the demo image if the engine has it. Raises `EngineError`."""
    return image_cache.find(engine, REPOSITORY, _fingerprint())


def _fingerprint() -> str:
    return image_cache.fingerprint(_sources(), _IMAGE_SETTINGS)


def demo_tree() -> ImageTree:
    """The files of the demo image."""
    tree = image_tree.small_system_tree(DEMO_PROGRAMS)
    _add_git(tree)
    for name in (*bases.BASE_LIBRARIES, *_NAME_SERVICE_LIBRARIES):
        if found := bases.library(name):
            tree.library(found)
            tree.libraries(found)
    tree.folder(WORKSPACE_FOLDER.removeprefix("/"), owner=DEMO_USER_ID)
    return tree


def _add_git(tree: ImageTree) -> None:
    """Add the helpers with which git reaches servers; the rest of git is one program."""
    helpers = _git_helpers()
    for helper in helpers:
        # At the same path as on this machine: the copied git looks there.
        tree.program(str(helper).removeprefix("/"), helper.resolve())
    if helpers:
        tree.folder("usr/share/git-core/templates")


def _git_helpers() -> list[Path]:
    git = shutil.which("git")
    if git is None:
        return []
    said = subprocess.run([git, "--exec-path"], capture_output=True, text=True, check=False).stdout
    found = (Path(said.strip(), name) for name in ("git-remote-http", "git-remote-https"))
    return [helper for helper in found if helper.is_file()]


def _sources() -> Iterator[Path]:
    """The files that the image is made of, without libraries."""
    yield from (Path(__file__), Path(bases.__file__))
    yield from (Path(found).resolve() for name in DEMO_PROGRAMS if (found := shutil.which(name)))
    yield from _git_helpers()
    yield from image_tree.modules()
