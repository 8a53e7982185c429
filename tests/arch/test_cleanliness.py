"""The repository works for a stranger: nothing in it names the machine it was written on."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What tools leave behind, and what is not ours.
NOT_OURS = {
    ".git",
    ".venv",
    ".cache",
    ".hypothesis",
    "__pycache__",
    "build",
    "dist",
    "mutants",
    "node_modules",
}
# A home directory in a text belongs to nobody, or to the user inside a sandbox.
HOMES = re.compile(r"/(?:home|Users)/(?!you\b|agent\b|sandbox\b)[A-Za-z][\w.-]*|(?<!\d)/root/[\w.]")


def ours() -> list[Path]:
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in NOT_OURS and not f.endswith(("_cache", ".egg-info"))]
        found += [Path(folder, file) for file in files if not file.startswith(".coverage")]
    return sorted(found)


def test_no_file_names_a_home_directory() -> None:
    for path in ours():
        text = path.read_bytes().decode("utf-8", "replace")
        hit = HOMES.search(text)
        assert hit is None, f"{path.relative_to(ROOT)} names {hit[0]}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see /" + "home/maria/egress", True),
        ("/" + "Users/li", True),
        ("/" + "root/.cache", True),
        ("/home/agent/.netrc", False),
        ("/homeless", False),
    ],
)
def test_a_home_directory_would_be_found(text: str, *, found: bool) -> None:
    assert bool(HOMES.search(text)) is found


def test_lock_files_hold_no_addresses() -> None:
    for lock in ROOT.glob("*.lock"):
        assert "://" not in lock.read_text(encoding="utf-8"), f"{lock.name} is tied to one package index"


def test_what_has_an_interpreter_line_can_be_run() -> None:
    for path in ours():
        with path.open("rb") as file:
            is_script = file.read(2) == b"#!"
        runnable = bool(path.stat().st_mode & stat.S_IXUSR)
        assert is_script == runnable, f"{path.relative_to(ROOT)}: interpreter line and x bit go together"
