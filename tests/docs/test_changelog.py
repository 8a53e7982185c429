"""The changelog has the form of Keep a Changelog, and its newest release is the version of the package."""

from __future__ import annotations

import re
import tomllib

from egress import __version__
from scripts.pages import ROOT, text

CHANGELOG = text(ROOT / "CHANGELOG.md")
RELEASES = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", CHANGELOG, re.MULTILINE)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_version_is_the_same_in_project_package_and_changelog() -> None:
    project = tomllib.loads(text(ROOT / "pyproject.toml"))["project"]
    assert project["version"] == __version__ == RELEASES[0]


def test_the_classifiers_begin_with_the_oldest_python_that_is_allowed() -> None:
    project = tomllib.loads(text(ROOT / "pyproject.toml"))["project"]
    pythons = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert project["requires-python"] == f">={pythons[0]}"


def test_releases_stand_newest_first_under_headings_of_the_form() -> None:
    headings = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert len(headings) == len(RELEASES) + 1
    numbers = [tuple(map(int, release.split("."))) for release in RELEASES]
    assert numbers == sorted(numbers, reverse=True)
    assert set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)) <= KINDS
