"""What is mounted over the places where programs of a distribution look by themselves."""

from __future__ import annotations

import pytest

from egress.runtime.kit.distro_paths import overmounts
from egress.runtime.kit.paths import KitPaths

FOLDER = KitPaths("/kit")
TARGETS = {each.target: each.source for each in overmounts(FOLDER)}


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("/etc/ssl/certs/ca-certificates.crt", id="Debian, Alpine, Arch"),
        pytest.param("/etc/ssl/cert.pem", id="Alpine"),
        pytest.param("/etc/pki/tls/certs/ca-bundle.crt", id="RHEL"),
        pytest.param("/etc/pki/tls/cert.pem", id="RHEL, OpenSSL"),
        pytest.param("/etc/ssl/ca-bundle.pem", id="SUSE"),
        pytest.param("/etc/ca-certificates/extracted/tls-ca-bundle.pem", id="Arch"),
    ],
)
def test_the_bundle_of_each_family_is_replaced(target: str) -> None:
    assert TARGETS[target] == FOLDER.bundle


@pytest.mark.parametrize("target", ["/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"])
def test_the_store_of_java_is_replaced(target: str) -> None:
    assert TARGETS[target] == FOLDER.trust_store


def test_the_tools_that_write_a_bundle_anew_find_the_certificate() -> None:
    anchors = [target for target, source in TARGETS.items() if source == FOLDER.certificate]
    assert len(anchors) == 4
    # The tool of Debian takes only what ends so, and the others whatever they find.
    assert TARGETS["/usr/local/share/ca-certificates/egress.crt"] == FOLDER.certificate


def test_browsers_find_their_policies() -> None:
    managed = [target for target, source in TARGETS.items() if source == FOLDER.chromium]
    assert len(managed) == 3
    # Chromium reads every file of the folder; an image has its own beside ours.
    assert all(target.endswith("/policies/managed/egress.json") for target in managed)
    assert TARGETS["/etc/firefox/policies/policies.json"] == FOLDER.firefox


def test_nothing_is_named_twice_and_nothing_but_files_of_trust_policies_and_apt_is_covered() -> None:
    assert len(TARGETS) == len(overmounts(FOLDER))
    ways = ("ssl", "pki", "ca-certificates", "java", "apt.conf.d", "policies")
    assert all(target.startswith("/") and any(way in target for way in ways) for target in TARGETS)
