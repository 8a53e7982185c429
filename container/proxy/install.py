"""Lays Egress into an image. Runs while that is built, with nothing around it but Python and pip.

    packages    an environment in /opt/egress, with exactly what the lock file names
    egress      the package in it, and its command
    slim        without what the proxy never uses

It is no shell script because the base need not have a shell, and an image without one is worth having.
"""

# ruff: noqa: INP001 - a script of a recipe, in no package

from __future__ import annotations

import compileall
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

BUILD = Path("/build")
HOME = Path("/opt/egress")
PYTHON = HOME / "bin/python"
COMMAND = f"""\
#!{PYTHON}
import sys

from egress.cli.main import main

sys.exit(main())
"""


UNUSED = ("tornado", "urwid", "wcwidth")
"""Packages of mitmproxy's own programs, of which none is here: its console and its web page."""
UNUSED_FILES = ("bin/mitmproxy-linux-redirector",)
"""Files of packages that stay."""
UNUSED_FOLDERS = ("mitmproxy/tools/web", "mitmproxy/tools/console")
"""Folders of packages that stay: the programs of mitmproxy themselves."""


def packages() -> None:
    """Make the environment. What no hash vouches for is refused."""
    run("venv", "--without-pip", str(HOME))
    options = ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--quiet"]
    checked = ["--require-hashes", "--only-binary=:all:", f"--find-links={BUILD}"]
    run(
        "pip", f"--python={PYTHON}", "install", *options, *checked, f"--requirement={BUILD}/requirements.lock"
    )


def egress() -> None:
    """Put the package where the environment looks, and its command beside Python."""
    asked = [str(PYTHON), "-P", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    found = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    target = Path(found, "egress")
    shutil.copytree(BUILD / "egress", target)
    # Nothing can be written there later.
    compileall.compile_dir(target, quiet=1)
    command = HOME / "bin/egress"
    command.write_text(COMMAND, encoding="utf-8")
    command.chmod(0o755)


def slim() -> None:
    """Take away what the proxy never uses: it is two fifths of all."""
    options = ["--yes", "--no-input", "--disable-pip-version-check", "--quiet"]
    run("pip", f"--python={PYTHON}", "uninstall", *options, *UNUSED)
    for path in UNUSED_FILES:
        found = HOME / path
        if found.is_dir():
            shutil.rmtree(found)
        else:
            found.unlink(missing_ok=True)
    (packages_folder,) = HOME.glob("lib/python3*/site-packages")
    for path in UNUSED_FOLDERS:
        shutil.rmtree(packages_folder / path)
    for package in packages_folder.iterdir():
        # Its own sources stay: a report of a fault quotes them.
        if package.name != "egress" and package.is_dir():
            compiled_alone(package)
    symbols = program(BUILD / "egress/runtime/docker/elf_strip.py")
    for library in packages_folder.rglob("*.so*"):
        library.write_bytes(symbols.without_symbols(library.read_bytes()))


def compiled_alone(folder: Path) -> None:
    """Put what Python compiles in the place of sources, as the base has it for its own library."""
    compileall.compile_dir(folder, quiet=2, legacy=True, force=True)
    for source in [*folder.rglob("*.py")]:
        if source.with_suffix(".pyc").exists():
            source.unlink()
    for cache in [*folder.rglob("__pycache__")]:
        shutil.rmtree(cache)


def program(path: Path) -> ModuleType:
    """A module of Egress that needs no other, by its path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(module: str, *words: str) -> None:
    """Run a module of this Python; whatever goes wrong ends the build."""
    subprocess.run([sys.executable, "-P", "-m", module, *words], check=True)


if __name__ == "__main__":
    {"packages": packages, "egress": egress, "slim": slim}[sys.argv[1]]()
