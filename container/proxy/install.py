"""Lays Egress into an image. Runs while that is built, with nothing around it but Python and pip.

    packages    an environment in /opt/egress, with exactly what the lock file names
    egress      the package in it, and its command

It is no shell script because the base need not have a shell, and an image without one is worth having.
"""

# ruff: noqa: INP001 - a script of a recipe, in no package

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
from pathlib import Path

BUILD = Path("/build")
HOME = Path("/opt/egress")
PYTHON = HOME / "bin/python"
COMMAND = f"""\
#!{PYTHON}
import sys

from egress.cli.main import main

sys.exit(main())
"""


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


def run(module: str, *words: str) -> None:
    """Run a module of this Python; whatever goes wrong ends the build."""
    subprocess.run([sys.executable, "-P", "-m", module, *words], check=True)


if __name__ == "__main__":
    {"packages": packages, "egress": egress}[sys.argv[1]]()
