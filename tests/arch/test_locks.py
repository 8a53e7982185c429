"""The lock files follow pyproject.toml; `make lock` brings them back in line."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NEEDED = PROJECT["project"]["dependencies"]
NEEDED_TO_DEVELOP = NEEDED + PROJECT["dependency-groups"]["dev"] + PROJECT["build-system"]["requires"]


def entries(lock: str) -> list[str]:
    """The lock's requirements, each with its hashes, as pip reads them: continued lines joined."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip()]


def versions(lock: str) -> dict[str, set[str]]:
    """Each package's locked versions; more than one where the platform or the Python decides."""
    found: dict[str, set[str]] = defaultdict(set)
    for entry in entries(lock):
        pinned = re.match(r"([\w.-]+)==([\w.!+]+)", entry)
        assert pinned, f"{lock}: {entry[:40]!r} does not name one version"
        found[canonicalize_name(pinned[1])].add(pinned[2])
    return found


@pytest.mark.parametrize(
    ("lock", "wanted"), [("requirements.lock", NEEDED), ("requirements-dev.lock", NEEDED_TO_DEVELOP)]
)
def test_a_lock_meets_every_requirement_of_the_project(lock: str, wanted: list[str]) -> None:
    locked = versions(lock)
    for text in wanted:
        requirement = Requirement(text)
        found = locked[canonicalize_name(requirement.name)]
        assert found, f"{lock} lacks {requirement.name}: run make lock"
        for version in found:
            assert version in requirement.specifier, f"{lock} has {requirement.name} {version}, not {text}"


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_package_has_a_hash(lock: str) -> None:
    for entry in entries(lock):
        assert "--hash=sha256:" in entry, f"{lock}: {entry[:40]!r} could be anything"


def test_what_is_tested_is_what_is_shipped() -> None:
    tested = versions("requirements-dev.lock")
    for package, shipped in versions("requirements.lock").items():
        assert shipped <= tested[package], f"{package}: shipped {shipped}, tested {tested[package]}"
