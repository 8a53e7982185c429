"""`egress doctor` as it is typed, beside no proxy. Running ones, ports and upstreams: tests/proxy."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import certifi
import click
import pytest

from egress import __version__
from egress.cli import doctor as module
from egress.cli.doctor import WITHOUT, doctor
from egress.cli.serve import serve
from egress.doctor.diagnosis import Diagnosis, DiagnosisGroup, Level
from egress.proxy.settings import Settings
from tests.cli.command import Outcome, egress, put

Captured = pytest.CaptureFixture[str]
TOKEN = "tok_A1b2C3d4E5f6G7h8I9j0"
RULES = "version: 1\nhosts:\n  a.example.com: {}\n"
SECRET = """\
version: 1
secrets:
  tracker: {from: "env:TRACKER", hosts: [a.example.com]}
hosts:
  a.example.com: {allow: all, inject: [{bearer: tracker}]}
"""
# Paths of sockets may not be long, and those of tests are.
NOWHERE = ("--listen", "127.0.0.1:0", "--runtime-dir", "run")
# Whether an engine runs on this machine, and how old it is, is none of the tests' business.
NO_ENGINE = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
ALONE = ("--rules", "hosts.yaml", *NOWHERE)


def run(folder: Path, *more: str, rules: str = RULES, env: Mapping[str, str] | None = None) -> Outcome:
    """Look at a proxy that would run by these rules, in a home of its own."""
    put(folder / "hosts.yaml", rules)
    words = [*ALONE, "--offline", "--connections", "10", *more]
    return egress("doctor", *words, cwd=folder, env={**NO_ENGINE, **(env or {})})


def checks(outcome: Outcome) -> dict[tuple[str, str], dict[str, str]]:
    assert outcome.err == "", outcome
    found: list[dict[str, str]] = json.loads(outcome.out)["checks"]
    return {(item["group"], item["name"]): item for item in found}


# What is typed ------------------------------------------------------------------------------------


OWN = {"offline", "as_json", "image", "runtime"}
"""The options that no proxy has."""


def test_it_has_the_options_of_serve_but_for_those_that_make_no_difference() -> None:
    """The same objects, so that they cannot drift apart; a new setting has to be put on one side."""
    theirs = {item.name: item for item in serve.params if isinstance(item, click.Option)}
    ours = {item.name: item for item in doctor.params if isinstance(item, click.Option)}
    assert set(ours) - OWN == Settings.model_fields.keys() - WITHOUT
    assert set(Settings.model_fields) >= WITHOUT
    for name in set(ours) - OWN:
        assert ours[name] is theirs[name]


def test_a_proxy_that_would_run_well_is_fine_and_nothing_is_made(tmp_path: Path) -> None:
    outcome = run(tmp_path)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.splitlines()[0] == "versions"
    assert re.search(r"^no fault in \d+ checks$", outcome.out.splitlines()[-1])
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.yaml"]


def test_each_check_is_a_line_and_its_fix_stands_below(tmp_path: Path) -> None:
    outcome = run(tmp_path, rules=RULES + "hots: {}\n")
    lines = outcome.out.splitlines()
    assert outcome.status == 1
    at = next(n for n, line in enumerate(lines) if line.startswith("  fault    hosts.yaml:4:1  unknown key"))
    assert lines[at + 1].startswith("           fix: ")
    assert lines[-1].startswith("1 fault in ")
    assert "not checked until the errors above are fixed" in outcome.out
    assert "skipped: --offline" in outcome.out


def test_programs_get_the_same_as_json(tmp_path: Path) -> None:
    outcome = run(tmp_path, "--json", rules=RULES + "hots: {}\n", env={"EGRESS_LISTENN": "x"})
    assert outcome.status == 1
    told = json.loads(outcome.out)
    assert list(told) == ["ok", "version", "faults", "warnings", "checks"]
    assert (told["ok"], told["version"], told["faults"], told["warnings"]) == (False, __version__, 1, 1)
    assert {tuple(item) for item in told["checks"]} == {("group", "name", "level", "fact", "fix")}
    assert {item["level"] for item in told["checks"]} == {"ok", "note", "warning", "fault"}
    found = checks(outcome)
    assert found["rules", "hosts.yaml:4:1"]["level"] == "fault"
    assert all(item["fix"] for item in found.values() if item["level"] in ("warning", "fault"))


def test_warnings_alone_are_no_failure(tmp_path: Path) -> None:
    outcome = run(tmp_path, env={"EGRESS_LISTENN": "x"})
    assert outcome.status == 0
    assert outcome.out.splitlines()[-1].startswith("no fault, 1 warning in ")


def test_settings_come_from_the_environment_as_well(tmp_path: Path) -> None:
    env = {"EGRESS_RULES": "hosts.yaml", "EGRESS_LISTEN": "127.0.0.1:0", "EGRESS_STATE_DIR": "elsewhere"}
    put(tmp_path / "hosts.yaml", RULES)
    outcome = egress("doctor", "--offline", "--json", cwd=tmp_path, env=env)
    found = checks(outcome)
    assert found["rules", "hosts.yaml"]["fact"].startswith("named by EGRESS_RULES")
    assert "elsewhere" in found["folders", "state"]["fact"]


def test_a_setting_that_cannot_be_is_an_error_of_the_command_line(tmp_path: Path) -> None:
    outcome = egress("doctor", "--listen", "nowhere", cwd=tmp_path)
    assert outcome.status == 2
    assert outcome.err.startswith("error: --listen: ")


def test_without_rules_all_that_needs_none_is_looked_at(tmp_path: Path) -> None:
    outcome = egress("doctor", "--offline", *NOWHERE, "--json", cwd=tmp_path)
    found = checks(outcome)
    assert outcome.status == 1
    assert [key for key, item in found.items() if item["level"] == "fault"] == [("rules", "rules")]
    assert ("versions", "h2") in found


# What is broken -----------------------------------------------------------------------------------


def fake(folder: Path, package: str, version: str) -> Path:
    """Metadata of another release, as it is after a careless `pip install`."""
    text = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    put(folder / f"{package}-{version}.dist-info/METADATA", text)
    return folder


def path_of(folder: Path) -> dict[str, str]:
    return {"PYTHONPATH": f"{folder}:{Path(module.__file__).parents[2]}"}


def test_a_release_that_is_known_to_be_bad_is_found(tmp_path: Path) -> None:
    outcome = run(tmp_path, "--json", env=path_of(fake(tmp_path / "site", "h2", "4.2.0")))
    found = checks(outcome)["versions", "h2"]
    assert (found["level"], outcome.status) == ("fault", 1)
    assert "h2>=4.3" in found["fix"]


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    put(tmp_path / "site/mitmproxy/__init__.py", "raise ImportError('it is broken', name='mitmproxy')\n")
    outcome = run(tmp_path, "--json", env=path_of(tmp_path / "site"))
    found = checks(outcome)
    assert outcome.status == 1
    assert "cannot be loaded because of mitmproxy" in found["versions", "egress"]["fact"]
    assert found["versions", "h2"]["level"] == "ok"


def test_what_would_keep_the_proxy_from_starting_is_a_fault(tmp_path: Path) -> None:
    variables = {"SSLKEYLOGFILE": "keys.log", "OPENSSL_CONF": "/dev/null"}
    found = checks(run(tmp_path, "--json", env=variables))
    assert found["variables", "mitmproxy"]["level"] == found["variables", "openssl"]["level"] == "fault"
    assert "SSLKEYLOGFILE" in found["variables", "mitmproxy"]["fix"]
    assert "OPENSSL_CONF" in found["variables", "openssl"]["fact"]
    for name, value in variables.items():
        twin = egress("serve", *ALONE, cwd=tmp_path, env={name: value})
        assert (twin.status, name in twin.err) == (2, True), twin


def test_a_clock_before_the_roots_were_released_is_a_fault(tmp_path: Path) -> None:
    """As on a machine whose clock begins anew: here it is the release that lies ahead."""
    where = "def where(): return __file__.replace('__init__.py', 'cacert.pem')\n"
    put(tmp_path / "site/certifi/__init__.py", f"__version__ = '2099.01.01'\n{where}")
    put(tmp_path / "site/certifi/cacert.pem", Path(certifi.where()).read_text("utf-8"))
    found = checks(run(tmp_path, "--json", env=path_of(tmp_path / "site")))["clock", "time"]
    assert found["level"] == "fault"
    assert "2099-01-01" in found["fact"]


# Secrets ------------------------------------------------------------------------------------------


def test_a_secret_of_the_environment_answers_and_is_taken_out_of_it(tmp_path: Path) -> None:
    """A command that a rule names looks at the environment of the doctor itself."""
    script = put(
        tmp_path / "kept/look",
        f"#!/bin/sh\ntr '\\0' '\\n' </proc/$PPID/environ >{tmp_path}/seen\necho {TOKEN}\n",
    )
    script.chmod(0o700)
    rules = SECRET.replace(
        "hosts:\n  a", f'  other: {{from: "command:{script}", hosts: [a.example.com]}}\nhosts:\n  a', 1
    )
    outcome = run(tmp_path, "--json", rules=rules, env={"TRACKER": "tok_Z9y8X7w6V5u4T3s2R1q0"})
    found = checks(outcome)
    assert outcome.status == 0, outcome
    assert found["secrets", "tracker"]["fact"].startswith("`env:TRACKER` answers")
    seen = (tmp_path / "seen").read_text("utf-8")
    assert "tok_Z9y8" not in seen
    if os.geteuid() == 0:
        assert "HOME=" in seen, "the twin: the rest of it is there"


def test_a_secret_of_the_environment_is_a_fault_in_a_container(tmp_path: Path) -> None:
    outcome = run(tmp_path, "--json", "--container", rules=SECRET, env={"TRACKER": TOKEN})
    found = checks(outcome)
    assert outcome.status == 1
    assert "holds secrets: TRACKER" in found["secrets", "environment"]["fact"]
    assert found["secrets", "tracker"]["level"] == "fault"
    assert TOKEN not in outcome.said


def test_commands_of_rules_that_nobody_trusts_are_not_run(tmp_path: Path) -> None:
    script = put(tmp_path / "tool", f"#!/bin/sh\ntouch {tmp_path}/was-run\necho {TOKEN}\n")
    script.chmod(0o700)
    put(tmp_path / "hosts.yaml", SECRET.replace("env:TRACKER", f"command:{script}"))
    words = ("doctor", "--offline", *NOWHERE, "--json")
    outcome = egress(*words, cwd=tmp_path)
    assert "not trusted" in checks(outcome)["rules", "hosts.yaml"]["fact"]
    assert not (tmp_path / "was-run").exists()
    assert egress("trust", "hosts.yaml", cwd=tmp_path).status == 0
    assert egress(*words, cwd=tmp_path).status == 0
    assert (tmp_path / "was-run").exists(), "the twin: trusted, it is asked"


# How it looks -------------------------------------------------------------------------------------


def test_what_comes_from_elsewhere_is_shown_as_text(capsys: Captured) -> None:
    module._show(DiagnosisGroup("some\x1b[2J", (Diagnosis("a\x1b]0;x\x07", Level.FAULT, "b\u202e", "c\n"),)))
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    assert len(out.splitlines()) == 3


def test_facts_of_one_group_stand_below_each_other(capsys: Captured) -> None:
    module._show(
        DiagnosisGroup(
            "some", (Diagnosis("a", Level.OK, "one"), Diagnosis("longer", Level.WARNING, "two", "do"))
        )
    )
    first, second, third, fourth = capsys.readouterr().out.splitlines()
    assert first == "some"
    assert second.index("one") == third.index("two")
    assert fourth == "           fix: do"
