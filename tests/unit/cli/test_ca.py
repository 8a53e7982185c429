"""`egress ca`: certificates are shown and handed out, keys never, and a rotation says what follows."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest
from cryptography import x509

from egress.ca import AuthorityStore
from egress.ca.bundle import certificates, public_roots
from egress.cli import rule_options
from egress.cli.main import cli
from egress.errors import ContentError, UnreadableError, UsageError

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this user's authorities."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state/egress/ca"


def run(*words: str) -> int:
    # Through `egress` itself: click keeps the help option that a group is first seen with.
    status = cli.main(args=["ca", *words], prog_name="egress", standalone_mode=False)
    assert isinstance(status, int)
    return status


def fields(text: str) -> dict[str, str]:
    return {
        key.strip(): value.strip() for key, _, value in (line.partition("  ") for line in text.splitlines())
    }


def test_before_there_is_one_it_says_so_and_makes_none(capsys: Captured, state: Path) -> None:
    assert run("show") == 0
    assert "the sandbox default has no authority yet" in capsys.readouterr().out
    assert run("show", "--json") == 0
    assert json.loads(capsys.readouterr().out)["exists"] is False
    assert not state.exists()


def test_show_tells_everything_but_the_key(capsys: Captured, state: Path) -> None:
    made = AuthorityStore(state).open("default", rule_options.now())
    assert run("show") == 0
    out = capsys.readouterr().out
    told = fields(out)
    assert told["sha-256"] == made.fingerprint
    assert told["subject"] == made.subject
    assert told["key"] == str(state / "default.pem")
    assert told["signs for"] == "every host"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC to \d{4}-\d\d-\d\d \d\d:\d\d UTC", told["valid"])
    assert "PRIVATE" not in out


def test_show_as_json(capsys: Captured, state: Path) -> None:
    made = AuthorityStore(state).open("other", rule_options.now())
    assert run("show", "--sandbox", "other", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["sha256"] == made.fingerprint
    assert (data["valid"], data["signs_for"], data["exists"]) == (True, None, True)
    assert data["not_after"] == made.not_after


def test_one_that_has_ended_is_shown_as_such(capsys: Captured, state: Path) -> None:
    AuthorityStore(state).open("default", 1_000_000_000)
    assert run("show") == 0
    assert "not now" in capsys.readouterr().out


def test_export_prints_one_certificate_and_makes_the_authority(capsys: Captured, state: Path) -> None:
    assert run("export") == 0
    out = capsys.readouterr().out
    assert "PRIVATE" not in out
    (found,) = x509.load_pem_x509_certificates(out.encode())
    assert found == AuthorityStore(state).load("default").certificate
    assert stat.S_IMODE((state / "default.pem").stat().st_mode) == 0o600


def test_export_says_when_it_has_made_an_authority(capsys: Captured) -> None:
    """A sandbox that asks with a home of its own would else trust somebody that no proxy is."""
    assert run("export") == 0
    assert "a proxy of another user, or with another --state-dir, uses its own" in capsys.readouterr().err
    assert run("export") == 0
    assert capsys.readouterr().err == ""


def test_a_bundle_holds_the_public_roots_too(capsys: Captured) -> None:
    assert run("export", "--bundle") == 0
    out = capsys.readouterr().out
    assert len(list(certificates(out.encode()))) == len(list(certificates(public_roots()))) + 1
    assert "PRIVATE" not in out


def test_a_file_is_written_and_the_variables_are_told(capsys: Captured, tmp_path: Path) -> None:
    assert run("export", "--bundle", "--out", "bundle.pem") == 0
    out = capsys.readouterr().out
    assert f"SSL_CERT_FILE={tmp_path / 'bundle.pem'}" in out
    assert f"NODE_EXTRA_CA_CERTS={tmp_path / 'bundle.pem'}" in out
    assert run("export", "--out", "one.pem") == 0
    out = capsys.readouterr().out
    assert f"NODE_EXTRA_CA_CERTS={tmp_path / 'one.pem'}" in out
    assert "SSL_CERT_FILE=" not in out, "alone it would take the public roots away"
    assert Path("one.pem").read_text() in Path("bundle.pem").read_text()


def test_a_file_is_replaced_only_when_asked() -> None:
    Path("one.pem").write_text("mine")
    with pytest.raises(ContentError):
        run("export", "--out", "one.pem")
    assert Path("one.pem").read_text() == "mine"
    assert run("export", "--out", "one.pem", "--force") == 0
    with pytest.raises(UsageError, match="--force"):
        run("export", "--force")


def test_rotate_makes_a_new_key_and_says_what_must_follow(capsys: Captured, state: Path) -> None:
    old = AuthorityStore(state).open("default", rule_options.now())
    assert run("rotate") == 0
    out = capsys.readouterr().out
    new = AuthorityStore(state).load("default")
    assert new.fingerprint != old.fingerprint
    assert fields(out)["sha-256"] == new.fingerprint
    assert fields(out)["before"] == old.fingerprint
    assert "restart `egress serve`" in out
    assert "egress ca export" in out


def test_rotate_where_nothing_was_makes_the_first(capsys: Captured, state: Path) -> None:
    assert run("rotate", "--sandbox", "new") == 0
    assert "no authority existed before; print" in capsys.readouterr().out
    assert AuthorityStore(state).names() == ("new",)


def test_rotate_can_bind_the_authority_to_the_hosts_of_the_rules(capsys: Captured, state: Path) -> None:
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  api.example.com: {}\n  'b.example.org': {}\n")
    assert run("rotate", "--constrain") == 0
    assert fields(capsys.readouterr().out)["signs for"] == "api.example.com, b.example.org"
    constraints = AuthorityStore(state).load("default").constraints
    assert constraints is not None
    assert constraints.names == ("api.example.com", "b.example.org")
    with pytest.raises(UsageError, match="--rules and --profile"):
        run("rotate", "--rules", "hosts.yaml")


def test_rotate_for_a_profile_that_is_not_there_changes_nothing(state: Path) -> None:
    Path("hosts.yaml").write_text(
        "version: 1\nhosts:\n  a.example.com: {}\nprofiles:\n  ci: { hosts: [a.example.com] }\n"
    )
    with pytest.raises(UsageError, match="no profile `default`"):
        run("rotate", "--constrain")
    assert not state.exists()
    assert run("rotate", "--constrain", "--profile", "ci") == 0


def test_a_key_that_others_may_read_is_refused(state: Path) -> None:
    AuthorityStore(state).open("default", rule_options.now())
    (state / "default.pem").chmod(0o644)
    for words in (["show"], ["export"]):
        with pytest.raises(UnreadableError, match="open to other users"):
            run(*words)


def test_another_folder_may_be_named(tmp_path: Path, state: Path) -> None:
    assert run("export", "--state-dir", str(tmp_path / "mine")) == 0
    assert AuthorityStore(tmp_path / "mine/ca").names() == ("default",)
    assert not state.exists()


def test_a_name_that_is_a_path_is_refused(tmp_path: Path) -> None:
    for command in ("show", "export", "rotate"):
        with pytest.raises(UsageError, match="invalid name of"):
            run(command, "--sandbox", "../../x")


def test_rotate_of_what_cannot_be_read_says_so(capsys: Captured, state: Path) -> None:
    AuthorityStore(state).open("default", rule_options.now())
    (state / "default.pem").write_bytes(b"broken")
    assert run("rotate") == 0
    assert fields(capsys.readouterr().out)["before"] == "a file that could not be used"


def test_rotate_says_the_whole_command_for_clients(capsys: Captured, tmp_path: Path) -> None:
    assert run("rotate", "--state-dir", "here", "--sandbox", "box") == 0
    out = capsys.readouterr().out
    assert f"egress ca export --state-dir {tmp_path / 'here'} --sandbox box\n" in out
    assert "before" not in fields(out)


def test_a_taken_file_is_named_with_the_option_that_there_is() -> None:
    Path("one.pem").write_text("mine")
    with pytest.raises(ContentError) as caught:
        run("export", "--out", "one.pem")
    assert "--out to" in caught.value.hint


@pytest.mark.parametrize("command", ["show", "export", "rotate"])
def test_a_state_folder_that_others_can_write_is_refused(command: str, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UnreadableError, match="is open to other users"):
        run(command, "--state-dir", "open")
    assert list((tmp_path / "open").iterdir()) == []
