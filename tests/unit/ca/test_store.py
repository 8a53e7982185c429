"""A store makes an authority once, gives back the same, and puts a new one in its place when asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from egress.ca import AuthorityStore, Constraints
from egress.ca.issue import DAY_SECONDS
from egress.ca.keyfile import rotate_command
from egress.errors import ContentError, UnreadableError, UsageError

NOW = 1_800_000_000


@pytest.fixture
def store(tmp_path: Path) -> AuthorityStore:
    return AuthorityStore(tmp_path / "ca")


def test_nothing_is_written_before_it_is_asked_for(store: AuthorityStore) -> None:
    assert store.names() == ()
    assert not store.directory.exists()


def test_an_authority_is_made_once(store: AuthorityStore) -> None:
    first = store.open("laptop", NOW)
    assert store.open("laptop", NOW + DAY_SECONDS).fingerprint == first.fingerprint
    assert store.load("laptop").fingerprint == first.fingerprint
    assert store.names() == ("laptop",)


def test_it_lasts_a_year(store: AuthorityStore) -> None:
    authority = store.open("laptop", NOW)
    assert authority.is_valid_at(NOW + 364 * DAY_SECONDS)
    assert not authority.is_valid_at(NOW + 365 * DAY_SECONDS)


def test_sandboxes_have_authorities_of_their_own(store: AuthorityStore) -> None:
    one, two = store.open("one", NOW), store.open("two", NOW)
    assert one.certificate.public_key() != two.certificate.public_key()
    assert one.subject != two.subject


def test_rotating_makes_a_new_key_and_the_old_one_is_gone(store: AuthorityStore) -> None:
    old = store.open("laptop", NOW)
    before = store.path("laptop").read_bytes()
    new = store.rotate("laptop", NOW)
    assert new.certificate.public_key() != old.certificate.public_key()
    assert store.load("laptop").fingerprint == new.fingerprint
    key = before[: before.index(b"-----BEGIN CERTIFICATE")]
    assert all(key not in path.read_bytes() for path in store.directory.iterdir())


def test_rotating_where_nothing_is_makes_one(store: AuthorityStore) -> None:
    made = store.rotate("laptop", NOW)
    assert store.load("laptop").fingerprint == made.fingerprint


def test_rotating_mends_a_file_that_cannot_be_used(store: AuthorityStore) -> None:
    store.open("laptop", NOW)
    store.path("laptop").write_bytes(b"broken")
    with pytest.raises(ContentError):
        store.open("laptop", NOW)
    assert store.rotate("laptop", NOW).is_valid_at(NOW)


def test_one_that_has_ended_is_not_made_anew_in_silence(store: AuthorityStore) -> None:
    """Clients trust the old one: a new one behind their back would only break them elsewhere."""
    store.open("laptop", NOW)
    with pytest.raises(ContentError, match="has expired, or the clock is wrong") as raised:
        store.open("laptop", NOW + 366 * DAY_SECONDS)
    assert f"`{rotate_command(store.path('laptop'))}`" in raised.value.hint
    assert store.load("laptop").not_before < NOW


def test_constraints_are_kept(store: AuthorityStore) -> None:
    wanted = Constraints.of(["api.example.com"])
    assert store.open("laptop", NOW, wanted).constraints == wanted
    assert store.open("laptop", NOW).constraints == wanted
    assert store.rotate("laptop", NOW).constraints is None


def test_processes_that_start_together_agree(store: AuthorityStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: store.open("laptop", NOW), range(4)))
    assert len({authority.fingerprint for authority in made}) == 1


def test_constraints_that_are_asked_for_are_never_missing_in_silence(store: AuthorityStore) -> None:
    store.open("laptop", NOW)
    with pytest.raises(ContentError, match="signs for every host") as raised:
        store.open("laptop", NOW, Constraints.of([]), rules=[Path("hosts.yaml")], profile="small")
    cure = rotate_command(store.path("laptop"), constrain=True, rules=[Path("hosts.yaml")], profile="small")
    assert f"`{cure}`" in raised.value.hint


def test_one_that_was_constrained_is_replaced_by_one_that_is(store: AuthorityStore) -> None:
    store.open("laptop", NOW, Constraints.of(["api.example.com"]))
    with pytest.raises(ContentError, match="has expired, or the clock is wrong") as raised:
        store.open("laptop", NOW + 366 * DAY_SECONDS)
    assert "--constrain --rules FILE" in raised.value.hint


def test_whether_there_is_one_can_be_asked(store: AuthorityStore, tmp_path: Path) -> None:
    assert not store.has("laptop")
    store.open("laptop", NOW)
    assert store.has("laptop")
    assert not store.has("other")
    assert not AuthorityStore(store.path("laptop")).has("below-a-file")


def test_a_folder_that_cannot_be_looked_into_is_named_with_its_option(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)
    with pytest.raises(
        UnreadableError, match=r"x/laptop\.pem cannot be inspected: file name too long"
    ) as raised:
        AuthorityStore(folder).has("laptop")
    assert "--state-dir" in raised.value.hint


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "/etc/x", "A", "a\n", "a b", ".a", "a.", "x" * 64, "-a"]
)
def test_a_name_never_leads_out_of_the_folder(name: str, store: AuthorityStore) -> None:
    for act in (
        store.load,
        store.path,
        lambda name: store.open(name, NOW),
        lambda name: store.rotate(name, NOW),
    ):
        with pytest.raises(UsageError, match="invalid name of a certificate authority"):
            act(name)


def test_a_link_that_leads_nowhere_is_not_written_through(store: AuthorityStore, tmp_path: Path) -> None:
    store.open("other", NOW)
    store.path("laptop").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableError):
        store.open("laptop", NOW)
    assert not (tmp_path / "elsewhere").exists()
