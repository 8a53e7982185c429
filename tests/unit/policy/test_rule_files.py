"""Which files are found for which name, and what comes of reading them, with real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.policy.rule_files import find_rule_files, load_policy

SECRETS = 'version: 1\nsecrets:\n  token: {from: "env:TOKEN", hosts: [api.example.com]}\n'
HOSTS = "version: 1\nhosts:\n  api.example.com: {allow: all, inject: [{bearer: token}]}\n"


def put(path: Path, text: str = "version: 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# Finding ----------------------------------------------------------------------------------------


def test_without_a_name_the_file_in_config_is_taken(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml")
    file = put(tmp_path / "config/hosts.yaml")
    assert find_rule_files([], tmp_path) == (file,)


def test_without_config_the_file_right_here_is_taken(tmp_path: Path) -> None:
    file = put(tmp_path / "hosts.yaml")
    assert find_rule_files([], tmp_path) == (file,)
    put(tmp_path / "config")
    assert find_rule_files([], tmp_path) == (file,)


def test_without_any_file_both_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"neither config/hosts\.yaml nor hosts\.yaml") as caught:
        find_rule_files([], tmp_path)
    assert "egress init" in caught.value.hint


def test_a_default_file_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    """Other rules than the ones somebody wrote must not come into force because of a broken link."""
    put(tmp_path / "hosts.yaml")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/hosts.yaml").symlink_to("gone.yaml")
    (file,) = find_rule_files([], tmp_path)
    assert file == tmp_path / "config/hosts.yaml"
    with pytest.raises(UnreadableError):
        load_policy([file])


def test_names_stay_short_below_an_empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "config/hosts.yaml", "version: 2\n")
    monkeypatch.chdir(tmp_path)
    (finding,) = load_policy(find_rule_files([], Path())).findings
    assert str(finding.place) == "config/hosts.yaml:1:10"


def test_a_file_is_that_file_alone(tmp_path: Path) -> None:
    file = put(tmp_path / "hosts.yaml")
    put(tmp_path / "other.yaml")
    put(tmp_path / "hosts.d/more.yaml")
    assert find_rule_files([file], tmp_path) == (file,)


def test_a_file_may_have_any_name_when_it_is_named(tmp_path: Path) -> None:
    file = put(tmp_path / "rules.txt")
    assert find_rule_files([file], tmp_path) == (file,)


def test_a_directory_is_all_its_files_by_name(tmp_path: Path) -> None:
    for name in ("20-b.yaml", "10-a.yaml", "30-c.yaml", "notes.txt", "hosts.schema.json", ".10-a.yaml.swp"):
        put(tmp_path / name)
    put(tmp_path / ".hidden.yaml")
    put(tmp_path / "below/40-d.yaml")
    names = [path.name for path in find_rule_files([tmp_path], Path())]
    assert names == ["10-a.yaml", "20-b.yaml", "30-c.yaml"]


def test_several_names_keep_their_order_and_stand_once(tmp_path: Path) -> None:
    a, b = put(tmp_path / "d/a.yaml"), put(tmp_path / "d/b.yaml")
    c = put(tmp_path / "c.yaml")
    assert find_rule_files([c, tmp_path / "d", a], Path()) == (c, a, b)


def test_a_directory_without_rules_is_said(tmp_path: Path) -> None:
    put(tmp_path / "notes.txt")
    with pytest.raises(UnreadableError, match=r"contains no \*\.yaml"):
        find_rule_files([tmp_path], Path())


@pytest.mark.parametrize("name", ["deny.yml", "deny.YAML", "deny.Yml"])
def test_a_rule_file_that_would_be_left_out_is_said(tmp_path: Path, name: str) -> None:
    """A deny rule that nobody reads denies nothing."""
    put(tmp_path / "hosts.yaml")
    put(tmp_path / name)
    with pytest.raises(UnreadableError, match="would be ignored") as caught:
        find_rule_files([tmp_path], Path())
    assert name in caught.value.message


def test_a_missing_name_is_found_out_when_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="file not found"):
        load_policy(find_rule_files([tmp_path / "gone.yaml"], Path()))


def test_a_directory_that_bears_the_name_of_a_rule_file_is_said(tmp_path: Path) -> None:
    put(tmp_path / "a.yaml/inside.txt")
    with pytest.raises(UnreadableError, match="is a directory"):
        load_policy(find_rule_files([tmp_path], Path()))


# Loading ----------------------------------------------------------------------------------------


def test_files_of_a_directory_make_one_policy(tmp_path: Path) -> None:
    put(tmp_path / "10-secrets.yaml", SECRETS)
    put(tmp_path / "20-hosts.yaml", HOSTS)
    loaded = load_policy(find_rule_files([tmp_path], Path()))
    assert loaded.findings == ()
    assert loaded.policy is not None
    assert list(loaded.policy.secrets) == ["token"]
    assert load_policy([tmp_path / "20-hosts.yaml"]).policy is None


def test_shipped_presets_are_at_hand(tmp_path: Path) -> None:
    loaded = load_policy([put(tmp_path / "hosts.yaml", "version: 1\nuse: [anthropic]\n")])
    assert loaded.findings == ()
    assert loaded.policy is not None
    assert [entry.key for entry in loaded.policy.entries.values()] == ["api.anthropic.com"]


def test_a_finding_names_the_file_and_the_place(tmp_path: Path) -> None:
    file = put(tmp_path / "hosts.yaml", "version: 1\nhots: {}\n")
    (finding,) = load_policy([file]).findings
    assert str(finding.place) == f"{file}:2:1"


def test_windows_line_ends_shift_no_line(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_bytes(b"version: 1\r\nhosts:\r\n  a.example.com: {}\r\nhots: {}\r\n")
    (finding,) = load_policy([file]).findings
    assert (finding.place.line, finding.place.column) == (4, 1)


def test_a_byte_order_mark_shifts_no_column(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_bytes(b"\xef\xbb\xbfvershun: 1\n")
    places = {(finding.place.line, finding.place.column) for finding in load_policy([file]).findings}
    assert places == {(1, 1)}


def test_every_file_that_is_no_text_is_reported_and_nothing_that_follows_from_it(tmp_path: Path) -> None:
    """Without the secrets the hosts would be called wrong, which they are not."""
    put(tmp_path / "b.yaml", HOSTS)
    for name in ("a.yaml", "c.yaml"):
        (tmp_path / name).write_bytes(SECRETS.encode() + b"# \xff\n")
    loaded = load_policy(find_rule_files([tmp_path], Path()))
    assert loaded.policy is None
    assert [Path(finding.place.file).name for finding in loaded.findings] == ["a.yaml", "c.yaml"]


def test_what_expires_soon_is_warned_of(tmp_path: Path) -> None:
    text = "version: 1\nhosts:\n  a.example.com: {expires: 2027-01-31}\n"
    file = put(tmp_path / "hosts.yaml", text)
    assert load_policy([file]).findings == ()
    (finding,) = load_policy([file], now=1_801_000_000).findings
    assert "expires soon" in finding.message
