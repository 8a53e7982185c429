"""The public roots are recent and certifi's own, and no refused root is among any."""

from __future__ import annotations

import calendar
from pathlib import Path

import certifi
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from egress.ca.issue import CLOCK_SKEW, DAY_SECONDS, new_key, root_certificate
from egress.doctor import roots
from egress.doctor.diagnosis import Diagnosis, Level
from egress.doctor.roots import made_at
from tests.unit.ca.test_bundle import refused
from tests.unit.doctor.proxy_setups import by_name, is_content, needs_care, patient

RELEASED = made_at(certifi.__version__) or 0
NOW = RELEASED + 40 * DAY_SECONDS
PRIVATE = root_certificate("private", new_key(), NOW, 10 * DAY_SECONDS).public_bytes(Encoding.PEM)


def looked(folder: Path, *upstream_ca: Path, now: int = NOW) -> dict[str, Diagnosis]:
    flags = {"upstream_ca": upstream_ca} if upstream_ca else {}
    return by_name(roots.check(patient(folder, now=now, settings=flags)))


def test_the_roots_of_here_are_good_and_told_with_their_age(tmp_path: Path) -> None:
    found = looked(tmp_path)
    assert is_content(found.values())
    assert "40 days old" in found["public roots"].fact


def test_roots_of_long_ago_are_doubtful(tmp_path: Path) -> None:
    needs_care(
        looked(tmp_path, now=RELEASED + 200 * DAY_SECONDS)["public roots"], Level.WARNING, "200 days old"
    )


@pytest.mark.parametrize("name", ["emSign ECC Root CA - G3", "AAA Certificate Services"])
def test_a_refused_root_among_them_is_a_fault(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an older certifi: its own file, with such a root in it."""
    package = tmp_path / "certifi"
    package.mkdir()
    (package / "cacert.pem").write_bytes(Path(certifi.where()).read_bytes() + refused(name))
    monkeypatch.setattr(certifi, "__file__", str(package / "__init__.py"))
    monkeypatch.setattr(certifi, "where", lambda: str(package / "cacert.pem"))
    needs_care(looked(tmp_path)["public roots"], Level.FAULT, name)


def test_a_bundle_that_is_not_its_own_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some systems patch it: the function leads to the bundle of the operating system."""
    system = tmp_path / "ca-certificates.crt"
    system.write_bytes(PRIVATE)
    monkeypatch.setattr(certifi, "where", lambda: str(system))
    needs_care(looked(tmp_path)["certifi"], Level.FAULT, str(system), "not its own")


def test_a_bundle_that_is_a_link_to_another_one_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, package = tmp_path / "ca-certificates.crt", tmp_path / "certifi"
    system.write_bytes(PRIVATE)
    package.mkdir()
    (package / "cacert.pem").symlink_to(system)
    monkeypatch.setattr(certifi, "__file__", str(package / "__init__.py"))
    monkeypatch.setattr(certifi, "where", lambda: str(package / "cacert.pem"))
    needs_care(looked(tmp_path)["certifi"], Level.FAULT, str(system))


def test_private_roots_are_told_with_their_end(tmp_path: Path) -> None:
    file = tmp_path / "own.pem"
    file.write_bytes(PRIVATE)
    assert is_content(looked(tmp_path, file).values())


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (NOW + 11 * DAY_SECONDS, "a certificate in it expired on"),
        (NOW - CLOCK_SKEW - 60, "is not valid before"),
    ],
)
def test_private_roots_out_of_their_time_are_doubtful(moment: int, said: str, tmp_path: Path) -> None:
    file = tmp_path / "own.pem"
    file.write_bytes(PRIVATE)
    needs_care(looked(tmp_path, file, now=moment)[str(file)], Level.WARNING, said)


@pytest.mark.parametrize("kind", ["missing", "no certificate", "refused"])
def test_private_roots_that_cannot_be_used_are_a_fault(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "own.pem"
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    if kind != "missing":
        file.write_bytes(broken if kind == "no certificate" else refused("AAA Certificate Services"))
    needs_care(looked(tmp_path, file)[str(file)], Level.FAULT)


@pytest.mark.parametrize(
    ("version", "day"),
    [("2026.10.18", (2026, 10, 18)), ("2026.1.2", (2026, 1, 2)), ("2026.13.1", None), ("1.0", None)],
)
def test_a_release_of_certifi_is_a_day(version: str, day: tuple[int, int, int] | None) -> None:
    assert made_at(version) == (None if day is None else calendar.timegm((*day, 0, 0, 0)))
