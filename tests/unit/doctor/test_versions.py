"""Versions are judged by floors that agree with the requirements of the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from egress.doctor import versions
from egress.doctor.diagnosis import Level
from egress.doctor.versions import FLOORS, TOO_NEW, VersionFloor, installed, package, python, released
from tests.unit.doctor.proxy_setups import by_name, is_content, needs_care

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WANTED = {item.name: item.specifier for item in map(Requirement, PROJECT["dependencies"])}


def floor(name: str) -> VersionFloor:
    return next(item for item in FLOORS if item.package == name)


def text(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def test_what_is_installed_here_is_good() -> None:
    found = by_name(versions.check())
    assert set(found) == {"python", *(item.package for item in FLOORS)}
    assert is_content(found.values())


@pytest.mark.parametrize("item", FLOORS, ids=lambda item: item.package)
def test_a_floor_is_that_of_the_requirements(item: VersionFloor) -> None:
    """Not decided twice: what pip would refuse is what the doctor finds."""
    wanted = WANTED[item.package]
    assert text(item.least) in wanted
    assert text((*item.least[:-1], item.least[-1] - 1, 99)) not in wanted
    if item.package in TOO_NEW:
        assert text(TOO_NEW[item.package]) not in wanted


def test_the_oldest_python_is_that_of_the_requirements() -> None:
    (least,) = re.findall(r"\d+\.\d+", PROJECT["requires-python"])
    assert least == text(versions.PYTHON[0])
    tried = [item.rpartition(" ")[2] for item in PROJECT["classifiers"] if ":: Python :: 3." in item]
    assert text(versions.PYTHON[1]) == tried[-1]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("mitmproxy", "12.2.2"),
        ("mitmproxy", "9.0"),
        ("cryptography", "46.0.5"),
        ("pyOpenSSL", "25.3.0"),
        ("h2", "4.2.0"),
        ("certifi", "2026.8.4"),
    ],
)
def test_a_release_below_its_floor_is_a_fault(name: str, version: str) -> None:
    found = package(floor(name), version)
    needs_care(found, Level.FAULT, version)
    assert name in found.fix


@pytest.mark.parametrize(
    ("name", "version"),
    [("mitmproxy", "12.2.3"), ("pyOpenSSL", "26.0.0"), ("h2", "4.3.0"), ("h2", "4.3.0.post1"), ("h2", "5.0")],
)
def test_a_release_from_its_floor_on_is_good(name: str, version: str) -> None:
    assert package(floor(name), version).level is Level.OK


def test_a_package_that_is_missing_is_a_fault() -> None:
    needs_care(package(floor("h2"), installed("there-is-no-such-package")), Level.FAULT, "not installed")


@pytest.mark.parametrize("version", ["4.4.0rc1", "4.4.dev0", "", "latest"])
def test_what_is_no_plain_release_is_doubtful(version: str) -> None:
    needs_care(package(floor("h2"), version), Level.WARNING, "not a plain release, so its flaws are unknown")


@pytest.mark.parametrize(("version", "said"), [("12.3.1", "published key"), ("13.0.0", "newer")])
def test_releases_of_mitmproxy_that_are_too_new_are_doubtful(version: str, said: str) -> None:
    needs_care(package(floor("mitmproxy"), version), Level.WARNING, version, said)


def test_the_metadata_of_another_release_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is after a careless `pip install`: what stands first on the path is what is used."""
    (tmp_path / "h2-4.2.0.dist-info").mkdir()
    (tmp_path / "h2-4.2.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: h2\nVersion: 4.2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert installed("h2") == "4.2.0"
    needs_care(by_name(versions.check())["h2"], Level.FAULT, "4.2.0")


@pytest.mark.parametrize(
    ("version", "level"),
    [((3, 11, 9), Level.FAULT), ((3, 12, 0), Level.OK), ((3, 13, 1), Level.OK), ((3, 14, 0), Level.WARNING)],
)
def test_python_is_judged_by_what_was_tried(version: tuple[int, ...], level: Level) -> None:
    assert python(version).level is level


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("1.2.3", (1, 2, 3)), ("26", (26,)), ("1.2+local.1", (1, 2)), ("1.2a1", None), ("1..2", None)],
)
def test_only_a_final_release_has_numbers(version: str, numbers: tuple[int, ...] | None) -> None:
    assert released(version) == numbers
