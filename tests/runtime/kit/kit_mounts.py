"""Lays a kit as a sandbox would have it: in a mount namespace of its own, over the files of this machine.

Nothing of the machine changes: the folders in which files are made are covered by layers that end with the
namespace. It needs no root, only a kernel that lets users have namespaces.
"""

from __future__ import annotations

import functools
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from egress.runtime.kit import Kit

ENTER = ("unshare", "--user", "--map-root-user", "--mount")
COVERED = ("/etc", "/usr/local/share")
"""Where files are made. What would lie elsewhere is left out: it is for other distributions than this one."""

_COVER = """\
mkdir -p {layer}/up {layer}/work
mount -t overlay -o lowerdir={folder},upperdir={layer}/up,workdir={layer}/work,userxattr none {folder}
"""
_MOUNT = """\
target=$(readlink -m {target})
mkdir -p "$(dirname "$target")"
[ -e "$target" ] || : >"$target"
mount --bind {source} "$target"
"""


def lay(kit: Kit, folder: Path) -> Path:
    """Write the files of the kit into a folder, which stands for the one inside."""
    for path, file in kit.files.items():
        place = folder / path.removeprefix(f"{kit.folder}/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)
        place.chmod(file.mode)
    return folder


def entering(kit: Kit, laid: Path, folder: Path) -> tuple[str, ...]:
    """The words in front of a command that is to run where the kit is laid and mounted."""
    layers = folder / "layers"
    layers.mkdir()
    lines = ["set -eu\n", f"mount -t tmpfs none {shlex.quote(str(layers))}\n"]
    lines += [
        _COVER.format(folder=covered, layer=shlex.quote(f"{layers}/{number}"))
        for number, covered in enumerate(COVERED)
    ]
    lines.append(f"mkdir {kit.folder}\nmount --bind -o ro {shlex.quote(str(laid))} {kit.folder}\n")
    lines += [
        _MOUNT.format(source=each.source, target=each.target)
        for each in kit.overmounts
        if each.target.startswith(COVERED)
    ]
    script = folder / "enter"
    script.write_text("".join([*lines, 'exec "$@"\n']))
    return (*ENTER, "sh", str(script))


@functools.cache
def why_not() -> str:
    """Why no such namespace can be had here; empty where it can."""
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return "unshare (apt install util-linux)"
    with tempfile.TemporaryDirectory() as folder:
        script = f"set -e\nmount -t tmpfs none {folder}\n{_COVER.format(folder='/etc', layer=folder)}"
        ran = subprocess.run((*ENTER, "sh", "-c", script), capture_output=True, check=False)
    return "a kernel that lets users have namespaces with layers" if ran.returncode else ""
