"""The key of an authority: there or not, its owner's alone, whole, and valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.ca import AuthorityStore, keyfile, new_authority_file
from egress.ca.constraints import Constraints
from egress.ca.issue import DAY_SECONDS, new_key, root_certificate
from egress.doctor import authority
from egress.doctor.diagnosis import Level
from egress.types import Identity
from tests.unit.doctor.proxy_setups import RULES, by_name, is_content, needs_care, only, patient, policy_of

NOW = 1_795_000_000


@pytest.fixture
def store(tmp_path: Path) -> AuthorityStore:
    (tmp_path / "state").mkdir(mode=0o700)
    return AuthorityStore(tmp_path / "state/ca")


def test_none_yet_is_fine_and_none_is_made(store: AuthorityStore, tmp_path: Path) -> None:
    assert is_content(authority.check(patient(tmp_path, now=NOW)))
    assert authority.usable_authority(patient(tmp_path, now=NOW)) is None
    assert not store.directory.exists()


def test_a_good_one_is_told_with_its_days_and_its_mode(store: AuthorityStore, tmp_path: Path) -> None:
    made = store.open("default", NOW)
    found = only(authority.check(patient(tmp_path, now=NOW + 5 * DAY_SECONDS)))
    assert found.level is Level.OK
    assert "360 more days" in found.fact
    assert "0600" in found.fact
    loaded = authority.usable_authority(patient(tmp_path, now=NOW))
    assert loaded is not None
    assert loaded.fingerprint == made.fingerprint


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_may_read_is_a_fault(mode: int, store: AuthorityStore, tmp_path: Path) -> None:
    store.open("default", NOW)
    store.path("default").chmod(mode)
    needs_care(only(authority.check(patient(tmp_path, now=NOW))), Level.FAULT, "open to other users")
    assert authority.usable_authority(patient(tmp_path, now=NOW)) is None


def test_a_folder_that_others_may_enter_is_a_fault(store: AuthorityStore, tmp_path: Path) -> None:
    store.open("default", NOW)
    store.directory.chmod(0o755)
    needs_care(only(authority.check(patient(tmp_path, now=NOW))), Level.FAULT, "open to other users")


def test_a_key_that_does_not_fit_its_certificate_is_a_fault(store: AuthorityStore, tmp_path: Path) -> None:
    key = new_key()
    keyfile.write(
        store.path("default"), new_key(), root_certificate("default", key, NOW, DAY_SECONDS), replace=False
    )
    needs_care(only(authority.check(patient(tmp_path, now=NOW))), Level.FAULT, "do not belong together")


def test_what_is_no_authority_at_all_is_a_fault(store: AuthorityStore, tmp_path: Path) -> None:
    store.open("default", NOW)
    store.path("default").write_text("nothing\n", encoding="utf-8")
    needs_care(
        only(authority.check(patient(tmp_path, now=NOW))), Level.FAULT, "contains no certificate authority"
    )


@pytest.mark.parametrize(("days", "level"), [(336, Level.WARNING), (366, Level.FAULT), (-2, Level.FAULT)])
def test_one_that_ends_soon_or_has_ended_or_not_begun_is_told(
    days: int, level: Level, store: AuthorityStore, tmp_path: Path
) -> None:
    store.open("default", NOW)
    found = only(authority.check(patient(tmp_path, now=NOW + days * DAY_SECONDS)))
    needs_care(found, level)
    assert f"egress ca rotate --state-dir {tmp_path / 'state'}" in found.fix


def test_one_that_lacks_hosts_of_the_rules_is_doubtful(store: AuthorityStore, tmp_path: Path) -> None:
    store.open("default", NOW, Constraints.for_policy(policy_of(RULES), Identity("default")))
    found = patient(tmp_path, now=NOW, ca_constrain=True)
    assert is_content(authority.check(found))
    more = patient(tmp_path, RULES + "  b.example.com: {}\n", now=NOW, ca_constrain=True)
    needs_care(tuple(authority.check(more))[1], Level.WARNING, "b.example.com")


def test_one_that_is_not_limited_though_it_should_be_is_a_fault(
    store: AuthorityStore, tmp_path: Path
) -> None:
    store.open("default", NOW)
    found = only(authority.check(patient(tmp_path, now=NOW, ca_constrain=True)))
    needs_care(found, Level.FAULT, "but --ca-constrain asks for a constrained one")


def test_those_of_other_sandboxes_are_told_only_where_there_is_trouble(
    store: AuthorityStore, tmp_path: Path
) -> None:
    for name in ("default", "one", "two"):
        store.open(name, NOW)
    assert set(by_name(authority.check(patient(tmp_path, now=NOW)))) == {"default"}
    store.path("two").chmod(0o644)
    needs_care(
        by_name(authority.check(patient(tmp_path, now=NOW)))["two"], Level.FAULT, "open to other users"
    )


def test_an_authority_that_a_cluster_keeps_is_told_with_its_days(tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    file.write_bytes(new_authority_file("gateway", NOW))
    file.chmod(0o400)
    setup = patient(tmp_path, authority_file=file, now=NOW)
    assert "365 more days" in only(authority.check(setup)).fact
    loaded = authority.usable_authority(setup)
    assert loaded is not None
    assert loaded.name == "authority"
    # The folder of this machine has none, and gets none.
    assert not (tmp_path / "state/ca").exists()


def test_the_end_of_such_an_authority_is_told_before(tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    file.write_bytes(new_authority_file("gateway", NOW))
    file.chmod(0o400)
    late = patient(tmp_path, authority_file=file, now=NOW + 340 * DAY_SECONDS)
    needs_care(only(authority.check(late)), Level.WARNING, "expires in 25 days")
    over = patient(tmp_path, authority_file=file, now=NOW + 366 * DAY_SECONDS)
    needs_care(only(authority.check(over)), Level.FAULT, "has expired")
    assert authority.usable_authority(over) is None
