"""Where Egress's own code is: what can be written there is run by its user, outside of every sandbox.

That is the package, the Python that runs it with everything it imports from, and the program `egress`.
Folders of `PYTHONPATH` count as well, whatever lies in them: modules are looked for there at first.
"""

from __future__ import annotations

import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import egress

_IMPORTED: Final = ("stdlib", "platstdlib", "purelib", "platlib")


def code(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files and folders, each once; some may not be there."""
    return tuple(dict.fromkeys(Path(place).absolute() for place in _places(environ)))


def _places(environ: Mapping[str, str]) -> Iterator[str | Path]:
    yield Path(egress.__file__).parent
    if sys.prefix != sys.base_prefix:
        # An environment of its own; a prefix such as /usr holds much that is none of ours.
        yield sys.prefix
    yield sys.executable
    yield from (path for name, path in sysconfig.get_paths().items() if name in _IMPORTED)
    yield from site.getsitepackages()
    if site.ENABLE_USER_SITE:
        yield site.getusersitepackages()
    libraries, library = (sysconfig.get_config_var(name) for name in ("LIBDIR", "LDLIBRARY"))
    if libraries and library:
        yield Path(libraries, library)
    program = shutil.which("egress", path=environ.get("PATH", ""))
    if program:
        yield program
    if listed := environ.get("PYTHONPATH"):
        # An empty entry is the working folder.
        yield from listed.split(":")
