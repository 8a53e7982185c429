"""An authority signs for canonical hosts, keeps what it has signed, and never shows its key."""

from __future__ import annotations

import copy
import pickle
import ssl
import subprocess
from pathlib import Path

import pytest

from egress.ca import Authority, Constraints, new_authority_file
from egress.ca import authority as module
from egress.ca.issue import DAY_SECONDS
from egress.errors import ContentError

NOW = 1_800_000_000
HOST = "api.example.com"


def verify(folder: Path, root: bytes, leaf: bytes, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "root.pem").write_bytes(root)
    (folder / "leaf.pem").write_bytes(leaf)
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-attime", str(NOW), *options]
    return subprocess.run(
        [*command, "-CAfile", str(folder / "root.pem"), str(folder / "leaf.pem")],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.system("openssl", "openssl")
@pytest.mark.parametrize("constraints", [None, Constraints.of([HOST])])
def test_openssl_verifies_a_leaf(constraints: Constraints | None, tmp_path: Path) -> None:
    authority = Authority.create("one", NOW, constraints)
    leaf = authority.leaf(HOST, NOW).certificate_pem
    good = verify(tmp_path, authority.certificate_pem, leaf, "-verify_hostname", HOST)
    assert good.returncode == 0, good.stderr
    assert verify(tmp_path, authority.certificate_pem, leaf, "-verify_hostname", "x.example.com").returncode
    stranger = Authority.create("two", NOW)
    assert verify(tmp_path, stranger.certificate_pem, leaf).returncode


@pytest.mark.system("openssl", "openssl")
def test_openssl_verifies_a_leaf_for_an_address(tmp_path: Path) -> None:
    authority = Authority.create("one", NOW)
    leaf = authority.leaf("192.0.2.7", NOW).certificate_pem
    assert verify(tmp_path, authority.certificate_pem, leaf, "-verify_ip", "192.0.2.7").returncode == 0
    assert verify(tmp_path, authority.certificate_pem, leaf, "-verify_ip", "192.0.2.8").returncode != 0


def test_a_leaf_has_a_key_of_its_own() -> None:
    authority = Authority.create("one", NOW)
    leaf = authority.leaf(HOST, NOW)
    assert leaf.certificate.public_key() != authority.certificate.public_key()
    assert leaf.key.public_key() == leaf.certificate.public_key()


def test_a_leaf_is_signed_once_and_kept() -> None:
    authority = Authority.create("one", NOW)
    first = authority.leaf(HOST, NOW)
    assert authority.leaf(HOST, NOW + 21 * 3600) is first
    assert authority.leaf("b.example.com", NOW) is not first


@pytest.mark.parametrize("later", [22 * 3600, 3 * DAY_SECONDS, -2 * 3600])
def test_a_leaf_is_made_anew_before_it_ends_and_when_the_clock_was_set_back(later: int) -> None:
    authority = Authority.create("one", NOW, life=8 * DAY_SECONDS)
    authority.not_before -= DAY_SECONDS
    first = authority.leaf(HOST, NOW)
    second = authority.leaf(HOST, NOW + later)
    assert second is not first
    assert second.not_after > NOW + later


def test_near_its_end_an_authority_does_not_sign_at_every_call() -> None:
    authority = Authority.create("one", NOW, life=3600)
    assert authority.leaf(HOST, NOW) is authority.leaf(HOST, NOW + 3500)


def test_the_leaves_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LEAVES", 3)
    authority = Authority.create("one", NOW)
    first = authority.leaf("h0.example.com", NOW)
    for number in range(1, 3):
        authority.leaf(f"h{number}.example.com", NOW)
    assert authority.leaf("h0.example.com", NOW) is first, "the least used goes first"
    authority.leaf("h3.example.com", NOW)
    assert sorted(authority._leaves) == ["h0.example.com", "h2.example.com", "h3.example.com"]


@pytest.mark.parametrize(
    "host",
    ["", "API.example.com", "api.example.com.", "*.example.com", "**.example.com", "a b", "127.1", "a\0b"],
)
def test_it_signs_for_canonical_hosts_alone(host: str) -> None:
    """Above all for no wildcard, whoever asks."""
    with pytest.raises(ContentError, match="canonical"):
        Authority.create("one", NOW).leaf(host, NOW)


def test_constraints_hold_in_our_own_code_too() -> None:
    authority = Authority.create("one", NOW, Constraints.of([HOST]))
    authority.leaf(HOST, NOW)
    with pytest.raises(ContentError, match=r"not permitted to sign for other\.example\.com"):
        authority.leaf("other.example.com", NOW)


@pytest.mark.parametrize("moment", [NOW - 2 * 3600, NOW + 7 * DAY_SECONDS])
def test_outside_its_life_it_signs_nothing(moment: int) -> None:
    authority = Authority.create("one", NOW)
    assert not authority.is_valid_at(moment)
    with pytest.raises(ContentError, match="not valid at this time") as raised:
        authority.leaf(HOST, moment)
    assert "restart the proxy" in raised.value.hint
    assert "rotate" not in raised.value.hint, "it does not know the folder, and another key would be lost"


@pytest.mark.system("openssl", "openssl")
def test_a_renewed_authority_verifies_what_the_old_one_signed(tmp_path: Path) -> None:
    old = Authority.create("one", NOW - 6 * DAY_SECONDS, Constraints.of([HOST]))
    new = old.renewed(NOW)
    assert new.not_after > old.not_after
    assert new.constraints == old.constraints
    for root, signer in ((new, old), (old, new)):
        leaf = signer.leaf(HOST, NOW).certificate_pem
        assert verify(tmp_path, root.certificate_pem, leaf).returncode == 0


def test_it_is_never_pickled_or_copied_and_its_repr_shows_no_key() -> None:
    authority = Authority.create("one", NOW)
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds a key"):
            act(authority)
    assert repr(authority) == f"Authority('one', {authority.fingerprint})"


def test_what_clients_get_is_a_certificate_alone() -> None:
    authority = Authority.create("one", NOW)
    assert b"PRIVATE" not in authority.certificate_pem
    ssl.create_default_context(cadata=authority.certificate_pem.decode())


def test_the_fingerprint_is_spelled_like_that_of_openssl() -> None:
    parts = Authority.create("one", NOW).fingerprint.split(":")
    assert len(parts) == 32
    assert all(len(part) == 2 and part == part.upper() for part in parts)


def test_a_mounted_authority_signs_until_it_ends(tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    file.write_bytes(new_authority_file("gateway", NOW))
    file.chmod(0o400)
    one, two = (Authority.load_mounted(file, NOW) for _ in range(2))
    # Replicas show leaves of one authority.
    assert one.leaf("example.com", NOW).certificate.issuer == two.certificate.subject
    with pytest.raises(ContentError, match="has expired"):
        Authority.load_mounted(file, NOW + 400 * 24 * 3600)
