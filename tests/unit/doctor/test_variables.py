"""Variables that mislead are named; what they hold is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.doctor import variables
from egress.doctor.diagnosis import Level
from egress.doctor.variables import is_led_here, leads_to
from egress.proxy.setting_values import ListenAddress
from tests.unit.doctor.proxy_setups import by_name, is_content, needs_care, only, patient

HERE = ListenAddress("127.0.0.1", 3128)
UNUSED = ListenAddress("127.0.0.1", 1)
"""Where nobody listens; a port that somebody has is in tests/proxy."""
COMMAND = """\
version: 1
secrets:
  vaulted: {from: "command:/usr/bin/true", hosts: [a.example.com]}
hosts:
  a.example.com: {allow: all, inject: [{bearer: vaulted}]}
"""


def test_an_ordinary_environment_is_content(tmp_path: Path) -> None:
    environ = {"LANG": "C", "HTTPS_PROXY": "http://proxy.corp.example:3128", "EGRESS_SANDBOX": "box"}
    assert is_content(variables.check(patient(tmp_path, environ=environ), [HERE], [HERE]))


@pytest.mark.parametrize("name", ["OPENSSL_CONF", "OPENSSL_MODULES"])
def test_what_configures_openssl_is_a_fault(name: str, tmp_path: Path) -> None:
    found = only(variables.check(patient(tmp_path, environ={name: "/etc/ssl/other.cnf"}), [HERE], [HERE]))
    needs_care(found, Level.FAULT, name)


def test_a_variable_that_is_no_setting_is_doubtful(tmp_path: Path) -> None:
    found = only(variables.check(patient(tmp_path, environ={"EGRESS_LISTENN": "x"}), [HERE], [HERE]))
    needs_care(found, Level.WARNING, "not a setting")
    assert "EGRESS_LISTEN" in found.fix


def test_commands_that_would_wait_for_the_proxy_they_serve_are_doubtful(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": "http://any:hunter2-hunter2@127.0.0.1:3128"}
    found = by_name(variables.check(patient(tmp_path, COMMAND, environ=environ), [HERE], [HERE]))["circle"]
    needs_care(found, Level.WARNING, "HTTPS_PROXY", "vaulted")
    assert "env -u HTTPS_PROXY egress serve" in found.fix
    assert "hunter2" not in str(found)


def test_without_such_commands_it_is_only_worth_knowing(tmp_path: Path) -> None:
    environ = {"https_proxy": "http://localhost:3128", "ALL_PROXY": "localhost:3128"}
    found = only(variables.check(patient(tmp_path, environ=environ), [HERE], [HERE]))
    assert found.level is Level.NOTE
    assert "https_proxy, ALL_PROXY" in found.fact
    assert "points to this proxy: programs started here use it" in found.fact


def test_a_variable_that_leads_to_a_proxy_that_does_not_run_is_doubtful(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": f"http://any:hunter2-hunter2@{UNUSED}"}
    found = only(variables.check(patient(tmp_path, environ=environ), [UNUSED], []))
    needs_care(found, Level.WARNING, f"HTTPS_PROXY points to {UNUSED}", "no proxy runs", "will fail")
    assert found.fix == "start the proxy, or `unset HTTPS_PROXY`"
    assert "hunter2" not in str(found)


def test_of_two_places_each_is_told_as_it_is(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": f"http://{HERE}", "HTTP_PROXY": f"http://{UNUSED}"}
    good, bad = variables.check(patient(tmp_path, environ=environ), [UNUSED, HERE], [HERE])
    assert good.level is Level.NOTE
    assert good.fact.startswith("HTTPS_PROXY points to this proxy")
    needs_care(bad, Level.WARNING, "HTTP_PROXY points to")


def test_commands_are_led_in_a_circle_whether_it_runs_or_not(tmp_path: Path) -> None:
    found = patient(tmp_path, COMMAND, environ={"HTTPS_PROXY": f"http://{UNUSED}"})
    assert list(by_name(variables.check(found, [UNUSED], []))) == ["circle", "proxy"]


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("NODE_TLS_REJECT_UNAUTHORIZED", "0", Level.WARNING),
        ("NODE_TLS_REJECT_UNAUTHORIZED", "1", Level.OK),
        ("GIT_SSL_NO_VERIFY", "True", Level.WARNING),
        ("GIT_SSL_NO_VERIFY", "false", Level.OK),
        ("PYTHONHTTPSVERIFY", "0", Level.WARNING),
    ],
)
def test_verification_that_is_switched_off_is_doubtful(
    name: str, value: str, level: Level, tmp_path: Path
) -> None:
    assert only(variables.check(patient(tmp_path, environ={name: value}), [HERE], [HERE])).level is level


@pytest.mark.parametrize(
    ("url", "at", "leads"),
    [
        ("http://127.0.0.1:3128", HERE, True),
        ("127.0.0.1:3128", HERE, True),
        ("http://user:word@localhost:3128/", HERE, True),
        ("socks5h://127.0.0.1:1080", ListenAddress("127.0.0.1", 1080), True),
        ("socks5h://127.0.0.1", ListenAddress("127.0.0.1", 1080), True),
        ("http://127.0.0.1", ListenAddress("127.0.0.1", 80), True),
        ("http://[::1]:3128", ListenAddress("::1", 3128), True),
        ("http://127.0.0.1:3128", ListenAddress("0.0.0.0", 3128), True),
        ("http://10.0.0.2:3128", ListenAddress("10.0.0.2", 3128), True),
        ("http://127.0.0.1:3129", HERE, False),
        ("http://10.0.0.2:3128", HERE, False),
        ("http://127.0.0.2:3128", HERE, False),
        ("http://localhost:3128", ListenAddress("10.0.0.2", 3128), False),
        ("http://proxy.example.com:3128", HERE, False),
        ("http://[::1", HERE, False),
        ("http://127.0.0.1:99999", HERE, False),
        ("", HERE, False),
    ],
)
def test_an_address_leads_here_or_not(url: str, at: ListenAddress, *, leads: bool) -> None:
    assert leads_to(url, at) is leads


def test_programs_are_led_here_by_any_of_the_variables() -> None:
    assert is_led_here({"http_proxy": "http://127.0.0.1:3128"}, [ListenAddress("10.0.0.1", 1), HERE])
    assert not is_led_here({"http_proxy": "http://127.0.0.1:3128"}, [])
    assert not is_led_here({"PROXY": "http://127.0.0.1:3128"}, [HERE])
