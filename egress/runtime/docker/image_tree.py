"""Images made from this machine: its Python, its programs, and their libraries.

No registry and no package index is used, and an image takes seconds. The door runs in such an image, with
Python and the few modules it imports; tests and demos use larger ones. An image fits this machine only, and
is never published.

Programs go to /usr/bin, whatever their folder here, and Python to /usr/local. A library keeps its path if the
loader searches there, else it goes to /usr/lib.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import BinaryIO, Final

from egress.runtime.docker import elf_strip
from egress.runtime.errors import UnsupportedError

_LIBRARY_LINE: Final = re.compile(r"(?:=> |^\s*)(/\S+) \(0x")
_LOADER_FOLDER: Final = re.compile(r"/(usr/)?lib(32|64|x32)?(/[\w-]+-linux-\w+)?")
_PYTHON_VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PYTHON_LIBRARY: Final = f"usr/local/lib/{_PYTHON_VERSION}"
PYTHON_PATH: Final = f"/usr/local/bin/{_PYTHON_VERSION}"
_EXCLUDED_MODULES: Final = frozenset(
    {
        "test",
        "tests",
        "idlelib",
        "tkinter",
        "turtledemo",
        "ensurepip",
        "lib2to3",
        "site-packages",
        "__pycache__",
        "pydoc_data",
        "turtle",
        "_tkinter",
        "xxlimited",
        "xxlimited_35",
        "xxsubtype",
    }
)
"""Modules that no program in an image imports: tests, windows, and what it takes to build Python."""
_TEST_MODULES: Final = ("_test", "_ctypes_test", "_xxtest")
"""What the names of extensions begin with that only Python's own tests import."""
_LIST_MODULES_SCRIPT: Final = """
import runpy, sys
runpy.run_path(sys.argv[1], run_name="looked_at")
import encodings.ascii, encodings.latin_1
from contextlib import contextmanager
from importlib.machinery import PathFinder
for name in list(sys.modules):
    # The import path is searched again: some modules replace themselves, so their own spec may lie.
    path = getattr(sys.modules.get(name.rpartition(".")[0]), "__path__", None)
    spec = PathFinder.find_spec(name, path)
    if spec and spec.has_location:
        print(spec.origin)
"""
_UNCHECKED_HEADER: Final = b"\x01" + bytes(11)
_PASSWD_FILE: Final = "root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n"
_GROUP_FILE: Final = "root:x:0:\nsandbox:x:1000:\n"


class ImageTree:
    """The files of an image, by path without the leading slash."""

    def __init__(self) -> None:
        self._files: dict[str, bytes | Path] = {}
        self._links: dict[str, str] = {}
        self._folders: dict[str, tuple[int, int]] = {"tmp": (0o1777, 0)}
        self._programs: set[str] = set()

    def text(self, path: str, data: bytes) -> None:
        self._files[path] = data

    def folder(self, path: str, mode: int = 0o755, owner: int = 0) -> None:
        self._folders[path] = (mode, owner)

    def program(self, name: str, source: Path) -> None:
        """Add a program and its libraries."""
        self._files[name] = source
        self._programs.add(name)
        self.libraries(source)

    def link(self, path: str, target: str) -> None:
        self._links[path] = target

    def libraries(self, source: Path) -> None:
        """Add the libraries of a program or a library."""
        for library in _libraries(source):
            self.library(library)

    def library(self, source: Path) -> None:
        """Add one library, at a path where the loader finds it."""
        where = str(source) if _LOADER_FOLDER.fullmatch(str(source.parent)) else f"/usr/lib/{source.name}"
        self._files[_path_in_usr(where)] = source

    def module(self, path: str, source: Path) -> None:
        """Add a module: Python as bytecode, an extension with its libraries."""
        # Bytecode alone: a sandbox's start would otherwise compile each module again.
        if source.suffix == ".py":
            self._files[f"{path}c"] = _compiled(source)
        else:
            self._files[path] = source
            self.libraries(source)

    def write(self, out: BinaryIO) -> str:
        """Write the tree as a tar archive; returns a digest of its contents."""
        # Sorted, and without owners, modes or times of this machine: equal files give an equal digest.
        digest = hashlib.sha256()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            # A merged /usr, as most distributions have it: programs name their loader by the old paths.
            for folder, target in (
                ("bin", "usr/bin"),
                ("sbin", "usr/bin"),
                ("lib", "usr/lib"),
                ("lib64", "usr/lib64"),
            ):
                self._links.setdefault(folder, target)
            for path, (mode, owner) in sorted(self._folders.items()):
                tar.addfile(_entry(path, tarfile.DIRTYPE, mode, owner))
                digest.update(f"{path}\0{mode:o}\0{owner}\0".encode())
            for path, target in sorted(self._links.items()):
                entry = _entry(path, tarfile.SYMTYPE)
                entry.linkname = target
                tar.addfile(entry)
            for path, source in sorted(self._files.items()):
                data = source if isinstance(source, bytes) else elf_strip.without_symbols(source.read_bytes())
                # Modes follow from the kind of file: those of this machine would change the archive.
                is_program = path in self._programs or ".so" in path or "/ld-" in path
                entry = _entry(path, tarfile.REGTYPE, 0o755 if is_program else 0o644)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
                digest.update(f"{path}\0{len(data)}\0".encode() + data)
        return digest.hexdigest()


def program_tree(program: Path) -> ImageTree:
    """Python, the modules that one program imports, and the program as /program.py."""
    tree = ImageTree()
    _add_python(tree)
    command = [str(interpreter()), "-I", "-S", "-c", _LIST_MODULES_SCRIPT, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnsupportedError(
            "this Python cannot run the door", "use a Python with its standard library as plain files"
        )
    for line in done.stdout.splitlines():
        source = Path(line)
        inside = _path_in_library(source)
        if inside is not None:
            tree.module(f"{_PYTHON_LIBRARY}/{inside}", source)
    # Python finds its prefix by these two.
    tree.module(f"{_PYTHON_LIBRARY}/os.py", _standard_library() / "os.py")
    tree.folder(f"{_PYTHON_LIBRARY}/lib-dynload")
    tree.text("program.py", program.read_bytes())
    return tree


def small_system_tree(programs: Iterable[str], *, python: bool = True) -> ImageTree:
    """A small system: a shell, those of these programs that this machine has, and Python with its library."""
    tree = ImageTree()
    for name in programs:
        if found := shutil.which(name):
            tree.program(f"usr/bin/{name}", Path(found).resolve())
    if python:
        _add_python(tree)
        for name in ("python3", "python"):
            tree.link(f"usr/local/bin/{name}", _PYTHON_VERSION)
        for source in modules():
            tree.module(f"{_PYTHON_LIBRARY}/{source.relative_to(_standard_library())}", source)
    # Some programs refuse to run for a user without an entry here.
    tree.text("etc/passwd", _PASSWD_FILE.encode())
    tree.text("etc/group", _GROUP_FILE.encode())
    tree.text("etc/nsswitch.conf", b"hosts: files dns\n")
    # Any user may be asked for, so the home is open to all.
    tree.folder("home/sandbox", mode=0o1777)
    return tree


@contextmanager
def spool_archive(tree: ImageTree) -> Iterator[tuple[BinaryIO, str]]:
    """The archive in a temporary file, and the digest of its contents."""
    with tempfile.TemporaryFile() as file:
        digest = tree.write(file)
        file.seek(0)
        yield file, digest


def _add_python(tree: ImageTree) -> None:
    tree.program(PYTHON_PATH.removeprefix("/"), interpreter())


def interpreter() -> Path:
    """The interpreter itself, not the one of a virtual environment."""
    return Path(sys.base_exec_prefix, "bin", _PYTHON_VERSION).resolve()


def _standard_library() -> Path:
    return Path(
        sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix})
    )


def modules() -> Iterator[Path]:
    """The modules of the standard library."""
    return _all_modules(_standard_library())


def _path_in_library(source: Path) -> Path | None:
    return source.relative_to(_standard_library()) if source.is_relative_to(_standard_library()) else None


def _all_modules(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name not in _EXCLUDED_MODULES and not path.name.startswith("config-"):
                yield from _all_modules(path)
        elif path.suffix in (".py", ".so") and not _is_excluded(path.name.partition(".")[0]):
            yield path


def _is_excluded(module: str) -> bool:
    return module in _EXCLUDED_MODULES or module.startswith(_TEST_MODULES)


def _compiled(source: Path) -> bytes:
    """Bytecode that Python loads without checking a source file: the image holds no sources."""
    try:
        code = SourceFileLoader(source.stem, str(source)).get_code(source.stem)
    except (SyntaxError, UnicodeError):
        # Some files below the library are templates or test samples.
        return b""
    return MAGIC_NUMBER + _UNCHECKED_HEADER + marshal.dumps(code)


def _libraries(source: Path) -> Iterator[Path]:
    """The libraries that the loader would load, by `ldd`."""
    done = subprocess.run(["ldd", str(source)], capture_output=True, text=True, check=False)  # noqa: S607
    for line in done.stdout.splitlines():
        if match := _LIBRARY_LINE.search(line):
            yield Path(match[1])


def _path_in_usr(path: str) -> str:
    """The path below /usr: distributions have merged /lib and /bin into it."""
    plain = path.removeprefix("/")
    return plain if plain.startswith("usr/") else f"usr/{plain}"


def _entry(path: str, kind: bytes, mode: int = 0o777, owner: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode, entry.uid, entry.gid = kind, mode, owner, owner
    return entry
