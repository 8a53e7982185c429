"""Rules are found, trusted and read as a start does, and every mistake is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cli.main import main
from egress.doctor import rules
from egress.doctor.diagnosis import Level
from egress.doctor.rules import MAX_SHOWN_FINDINGS, RulesReport
from egress.policy.trust import TrustedFiles
from egress.proxy.settings import read
from tests.cli.command import put
from tests.unit.doctor.proxy_setups import RULES, by_name, is_content, needs_care, only, open_folder

NOW = 1_795_000_000


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EGRESS_RULES", raising=False)


def found(folder: Path, *named: str, profile: str | None = None) -> RulesReport:
    flags: dict[str, object] = {"state_dir": folder / "state", "runtime_dir": folder / "run"}
    flags |= {"rules": tuple(map(Path, named))} if named else {}
    flags |= {"profile": profile} if profile else {}
    return rules.read(read(flags), folder / "config-home", NOW)


def test_rules_that_are_named_are_used(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", RULES)
    read_ = found(tmp_path, "hosts.yaml")
    assert read_.policy is not None
    assert is_content(read_.diagnoses)
    assert only(read_.diagnoses).fact == "named by --rules: 1 host, mode enforce"


def test_where_they_were_found_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "other.yaml", RULES)
    monkeypatch.setenv("EGRESS_RULES", "other.yaml")
    assert only(found(tmp_path).diagnoses).fact.startswith("named by EGRESS_RULES")
    monkeypatch.delenv("EGRESS_RULES")
    put(tmp_path / "config-home/hosts.yaml", RULES)
    assert only(found(tmp_path).diagnoses).fact.startswith("your own")


def test_no_rules_are_a_fault(tmp_path: Path) -> None:
    nothing = found(tmp_path)
    assert nothing.until == "rules are found"
    assert nothing.policy is None
    needs_care(only(nothing.diagnoses), Level.FAULT, "no rules found")
    needs_care(only(found(tmp_path, "missing.yaml").diagnoses), Level.FAULT, "file not found: missing.yaml")


def test_a_configuration_that_cannot_be_looked_at_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "config-home").symlink_to(tmp_path / ("x" * 300))
    needs_care(only(found(tmp_path).diagnoses), Level.FAULT)
    assert found(tmp_path).policy is None


def test_rules_that_only_lie_here_are_not_used_until_they_are_trusted(tmp_path: Path) -> None:
    file = put(tmp_path / "hosts.yaml", RULES)
    (tmp_path / "state").mkdir(mode=0o700)
    untrusted = found(tmp_path)
    assert untrusted.policy is None
    assert untrusted.until == "the rules are trusted"
    needs_care(only(untrusted.diagnoses), Level.FAULT, "not trusted")
    assert "egress trust hosts.yaml" in only(untrusted.diagnoses).fix
    TrustedFiles(tmp_path / "state").add(file)
    trusted = found(tmp_path)
    assert trusted.policy is not None
    assert only(trusted.diagnoses).fact.startswith("found here and trusted")
    put(file, RULES + "# changed\n")
    needs_care(only(found(tmp_path).diagnoses), Level.FAULT, "has changed since")


def test_mistakes_are_told_with_file_and_line_also_where_nothing_is_trusted(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", RULES + "hots: {}\n")
    for looked in (found(tmp_path, "hosts.yaml"), found(tmp_path)):
        assert looked.policy is None
        needs_care(by_name(looked.diagnoses)["hosts.yaml:4:1"], Level.FAULT, "unknown key")


def test_they_are_those_of_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "hosts.yaml", RULES + "hots: {}\n")
    main(["check", "hosts.yaml"])
    item = by_name(found(tmp_path, "hosts.yaml").diagnoses)["hosts.yaml:4:1"]
    assert f"{item.name}: error: {item.fact}" in capsys.readouterr().out


def test_many_mistakes_are_counted(tmp_path: Path) -> None:
    put(
        tmp_path / "hosts.yaml",
        RULES + "".join(f"wrong{number}: 1\n" for number in range(MAX_SHOWN_FINDINGS + 2)),
    )
    looked = found(tmp_path, "hosts.yaml")
    assert looked.until == "the errors above are fixed"
    *first, last = looked.diagnoses
    assert len(first) == MAX_SHOWN_FINDINGS
    needs_care(last, Level.FAULT, "2 more errors")
    assert "egress check hosts.yaml" in last.fix


def test_warnings_do_not_keep_rules_from_being_used(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", 'version: 1\nhosts:\n  "*.github.io": {}\n')
    looked = found(tmp_path, "hosts.yaml")
    assert looked.policy is not None
    warned = [item for item in looked.diagnoses if item.level is Level.WARNING]
    needs_care(only(warned), Level.WARNING)
    assert only(warned).name.startswith("hosts.yaml:3:")


def test_rules_that_allow_nothing_are_a_fault(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", "version: 1\n")
    needs_care(only(found(tmp_path, "hosts.yaml").diagnoses), Level.FAULT, "contain no host")


def test_a_profile_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    put(tmp_path / "hosts.yaml", RULES + "profiles:\n  small: {hosts: [a.example.com]}\n")
    assert is_content(found(tmp_path, "hosts.yaml", profile="small").diagnoses)
    large = found(tmp_path, "hosts.yaml", profile="large")
    assert large.policy is None
    needs_care(by_name(large.diagnoses)["profile"], Level.FAULT, "no such profile")


@pytest.mark.parametrize("where", ["hosts.yaml", "."])
def test_rules_that_everybody_can_write_are_a_fault(where: str, tmp_path: Path) -> None:
    with open_folder() as folder:
        place = put(folder / "hosts.yaml", RULES).parent / where
        assert is_content(found(tmp_path, str(folder / "hosts.yaml")).diagnoses)
        place.chmod(place.stat().st_mode | 0o002)
        looked = found(tmp_path, str(folder / "hosts.yaml"))
        bad = only(item for item in looked.diagnoses if item.level is Level.FAULT)
        needs_care(bad, Level.FAULT, "every user")
        assert bad.fix.endswith(f"`chmod o-w {place}`")
