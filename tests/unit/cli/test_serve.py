"""`egress serve` up to the moment at which it serves.

From there on see tests/proxy/process/test_lifecycle.py.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import click
import pytest

from egress.cli.main import main
from egress.cli.serve import _announce, _say_waiting, serve
from egress.policy.rule_source import RuleSource
from egress.policy.trust import TrustedFiles
from egress.proxy.process.rule_feed import RuleFiles
from egress.proxy.process.start_values import ReadyReport, StartValues
from egress.proxy.setting_values import ListenAddress
from egress.proxy.settings import Settings, flag, read
from egress.rules.compile.load import RuleText, load
from egress.secrets import CapturedEnvironment as Taken
from egress.secrets import UnavailableSecret

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "EGRESS_RULES", "EGRESS_DRAIN"):
        monkeypatch.delenv(name, raising=False)


def test_every_setting_is_an_option() -> None:
    options = {option for item in serve.params if isinstance(item, click.Option) for option in item.opts}
    assert options >= {flag(name) for name in Settings.model_fields}


def test_the_settings_in_force_are_shown_with_where_they_come_from(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EGRESS_DRAIN", "5s")
    assert main(["serve", "--settings", "--sandbox", "box"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["--drain", "5s", "environment"] in rows
    assert ["--sandbox", "box", "flag"] in rows
    assert ["--listen", "127.0.0.1:3128", "default"] in rows
    assert main(["serve", "--settings", "--json", "--no-container"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["container"] == {"value": "no", "from": "flag"}
    assert set(found) == {flag(name)[2:] for name in Settings.model_fields}


def test_a_setting_that_cannot_be_is_named(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["serve", "--listen", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("error: --listen: ")
    monkeypatch.setenv("EGRESS_DRAIN", "soon")
    assert main(["serve"]) == 2
    assert capsys.readouterr().err.startswith("error: EGRESS_DRAIN: ")


def test_without_rules_it_says_where_it_looked(capsys: Captured, tmp_path: Path) -> None:
    assert main(["serve"]) == 3
    said = capsys.readouterr().err
    assert str(tmp_path / ".config/egress") in said
    assert "--rules" in said


def test_rules_with_a_mistake_are_shown_as_check_shows_them(capsys: Captured) -> None:
    Path("hosts.yaml").write_text("version: 1\nhots: {}\n", encoding="utf-8")
    main(["check", "hosts.yaml"])
    finding = capsys.readouterr().out.splitlines()[0]
    assert main(["serve", "--rules", "hosts.yaml"]) == 1
    assert finding in capsys.readouterr().err


def test_rules_that_merely_lie_here_are_not_used(capsys: Captured) -> None:
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  a.example.com: {}\n", encoding="utf-8")
    assert main(["serve"]) == 1
    assert "egress trust hosts.yaml" in capsys.readouterr().err


RULES = "version: 1\nprofiles:\n  small: {hosts: [a.example.com]}\nhosts:\n  a.example.com: {}\n"


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (RULES, "known profiles: small"),
        (RULES.replace("profiles:\n  small: {hosts: [a.example.com]}\n", ""), "`profiles:`"),
    ],
)
def test_a_profile_that_the_rules_do_not_have_starts_nothing(rules: str, said: str, capsys: Captured) -> None:
    Path("hosts.yaml").write_text(rules, encoding="utf-8")
    assert main(["serve", "--rules", "hosts.yaml", "--profile", "large"]) == 2
    assert said in capsys.readouterr().err


def test_a_state_folder_that_others_can_write_starts_nothing(capsys: Captured, tmp_path: Path) -> None:
    Path("hosts.yaml").write_text(RULES, encoding="utf-8")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert main(["serve", "--rules", "hosts.yaml", "--state-dir", "open"]) == 3
    assert "open is open to other users" in capsys.readouterr().err


# What is said -----------------------------------------------------------------------------------------


def announced(
    capsys: Captured, *addresses: ListenAddress, lacking: tuple[UnavailableSecret, ...] = (), **given: object
) -> list[str]:
    """The lines of a proxy that is ready."""
    policy = load([RuleText("hosts.yaml", RULES)]).policy
    assert policy is not None
    effective = read(given)
    chosen = RuleSource((Path("hosts.yaml"),))
    rules = RuleFiles(chosen, TrustedFiles(effective.values.state_dir))
    start = StartValues(effective, rules, policy, Taken({}, {}))
    control, stand_ins = effective.values.runtime_dir / "control.sock", (("api", "x" * 200),)
    _announce(ReadyReport(addresses, control, stand_ins, lacking=lacking), start)
    return capsys.readouterr().out.splitlines()


def test_what_a_client_needs_is_one_command_a_line(capsys: Captured) -> None:
    lines = announced(capsys, ListenAddress("127.0.0.1", 3128))
    assert lines[0] == "egress is ready: proxy http://127.0.0.1:3128, 1 host in hosts.yaml"
    assert lines[1:3] == ["  To point another terminal of this machine at it:", '    eval "$(egress env)"']
    assert lines[4:6] == [
        "    export HTTPS_PROXY=http://127.0.0.1:3128",
        "    egress ca export --bundle --force --out egress-ca.pem",
    ]
    names = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"]
    assert lines[6:11] == [f'    export {name}="$PWD/egress-ca.pem"' for name in names]
    assert lines[-2:] == ["    egress status", "  stop it with Ctrl-C"]


def test_a_secret_that_is_missing_is_told_with_what_to_do(capsys: Captured) -> None:
    lacking = (
        UnavailableSecret("tracker", "env", "the variable TRACKER was not set", "set it and start again"),
    )
    lines = announced(capsys, ListenAddress("127.0.0.1", 3128), lacking=lacking)
    at = lines.index("  missing: the secret tracker (from `env:`): the variable TRACKER was not set")
    assert lines[at + 1] == "    set it and start again"
    assert not any("missing" in line for line in announced(capsys, ListenAddress("127.0.0.1", 3128)))


def test_where_it_does_not_listen_no_client_is_told_to_come(capsys: Captured) -> None:
    lines = announced(capsys, listen="none", handover=True)
    assert lines[0] == "egress is ready: proxy only for handed-over listeners, 1 host in hosts.yaml"
    assert not any("HTTPS_PROXY" in line or "To point" in line for line in lines)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_address_that_no_client_can_dial_is_not_shown_to_clients(host: str, capsys: Captured) -> None:
    lines = announced(
        capsys,
        ListenAddress(host, 3128),
        listen=(f"[{host}]:1" if ":" in host else "0.0.0.0:1",),
        network=True,
    )
    assert lines[4] == "    export HTTPS_PROXY=http://ADDRESS-OF-THIS-HOST:3128"


def test_a_password_is_taken_from_its_file_and_never_shown(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = announced(capsys, ListenAddress("127.0.0.1", 3128), password_file="my pw")
    assert lines[4] == f"    export HTTPS_PROXY=\"http://any:$(cat '{tmp_path / 'my pw'}')@127.0.0.1:3128\""


def test_folders_of_its_own_stand_in_the_commands_whatever_set_them(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another terminal does not have the variables of this one."""
    monkeypatch.setenv("EGRESS_STATE_DIR", "st ate")
    lines = announced(capsys, ListenAddress("127.0.0.1", 3128), sandbox="box")
    where = f"'{tmp_path}/st ate'"
    assert lines[5].endswith(f"--out egress-ca.pem --sandbox box --state-dir {where}")
    assert lines[-2] == f"    egress status --runtime-dir '{tmp_path}/st ate/run'"


def test_no_width_of_a_terminal_breaks_a_command(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = announced(
        capsys, ListenAddress("127.0.0.1", 3128), sandbox="a-long-name", state_dir=Path("x" * 60)
    )
    for name, value in (("TERM", "xterm"), ("COLUMNS", "40")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    found = announced(
        capsys, ListenAddress("127.0.0.1", 3128), sandbox="a-long-name", state_dir=Path("x" * 60)
    )
    shown = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in found]
    commands = [line for line in plain if line.startswith("    ")]
    assert len(commands) == 10
    assert set(commands) <= set(shown)


@pytest.mark.parametrize(("by_key", "again"), [(True, "Ctrl-C again"), (False, "a second signal")])
def test_who_waits_is_told_for_what_and_how_long(by_key: bool, again: str, capsys: Captured) -> None:
    _say_waiting(1, 30, by_key)
    assert capsys.readouterr().out == f"waiting up to 30s for 1 connection; {again} stops at once\n"
