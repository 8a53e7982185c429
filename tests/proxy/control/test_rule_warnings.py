"""What is said about sound rules that promise more than holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from egress.ca.authority import Authority
from egress.ca.constraints import Constraints
from egress.ca.keyfile import rotate_command
from egress.proxy.control.rule_warnings import (
    log_findings,
    log_rule_warnings,
    unscrubbed_secrets,
    unsignable_hosts,
)
from egress.proxy.lanes.engine import ServedSandbox
from egress.proxy.settings import Settings
from egress.types import Finding, Identity, Place, Severity
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import SANDBOX, ProxyStack, policy_of

PIN = f"sha256/{'A' * 43}="
RULES = """\
version: 1
secrets:
  filed: {from: "file:/run/secrets/x", hosts: [api.example.com]}
  plain: {from: "env:PLAIN", hosts: [api.example.com]}
hosts:
  api.example.com: {allow: all, inject: [{bearer: filed}]}
  blind.example.com: {intercept: never, ports: [8443]}
  docs.example.com: {}
"""


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[ProxyStack]:
    async with ProxyStack(tmp_path, Certificates(), RULES) as stack:
        yield stack


def values(**given: object) -> Settings:
    return Settings.model_validate({"sandbox": SANDBOX, "rules": "hosts.yaml", **given})


def said(stack: ProxyStack, *pinned: str, **given: object) -> list[tuple[str, str]]:
    with capture_logs() as logged:
        log_rule_warnings(stack.engine, values(pin=",".join(f"{host}={PIN}" for host in pinned), **given))
    assert {line["log_level"] for line in logged} <= {"warning"}
    keys = ("secret", "host", "hosts", "profile")
    about = ((line["event"], next(line[key] for key in keys if key in line)) for line in logged)
    return [(str(event), str(what)) for event, what in about]


async def test_a_secret_that_cannot_be_had_here_is_told(stack: ProxyStack) -> None:
    assert said(stack) == []
    assert said(stack, container=True) == [("secret.unresolvable", "plain")]


async def test_it_is_told_with_its_place_and_its_cure(stack: ProxyStack) -> None:
    with capture_logs() as logged:
        log_rule_warnings(stack.engine, values(container=True))
    assert logged[0]["place"] == "hosts.yaml:4:3"
    assert "`file:`" in logged[0]["cure"]


async def test_a_pin_that_is_never_looked_at_is_told(stack: ProxyStack) -> None:
    pinned = ("api.example.com", "blind.example.com", "unknown.example.com")
    assert [what for event, what in said(stack, *pinned) if event == "pin.unused"] == ["blind.example.com"]


async def test_hosts_that_an_authority_may_not_sign_for_are_told(stack: ProxyStack) -> None:
    engine = stack.engine
    assert unsignable_hosts(engine) == {}
    limits = Constraints.of(["docs.example.com"])
    engine.sandboxes[SANDBOX].authority = Authority.create("x", engine.clock.now(), limits)
    assert unsignable_hosts(engine) == {SANDBOX: ("api.example.com",)}
    assert ("authority.lacking", "api.example.com") in said(stack)


async def test_the_cure_of_an_authority_is_the_whole_command_for_this_one(
    stack: ProxyStack, tmp_path: Path
) -> None:
    """One without folder and name would destroy the key of another."""
    engine = stack.engine
    for name in (SANDBOX, "added"):
        authority = Authority.create("x", engine.clock.now(), Constraints.of(["docs.example.com"]))
        engine.sandboxes[name] = ServedSandbox(Identity(name), authority, bytes(32))
    with capture_logs() as logged:
        log_rule_warnings(engine, values(state_dir=tmp_path, profile="small"))
    hints = {line["sandbox"]: line["hint"] for line in logged if line["event"] == "authority.lacking"}
    file = tmp_path / "ca" / f"{SANDBOX}.pem"
    command = rotate_command(file, constrain=True, rules=[Path("hosts.yaml")], profile="small")
    assert f"`{command}`" in hints[SANDBOX]
    assert "rotate" not in hints["added"], "it has no file"
    assert "add it again" in hints["added"]


async def test_an_address_for_a_name_that_no_rule_names_is_told(stack: ProxyStack) -> None:
    given = "api.example.com=127.0.0.1,apl.example.com=127.0.0.1"
    assert ("resolve.unused", "apl.example.com") in said(stack, resolve=given)
    assert ("resolve.unused", "api.example.com") not in said(stack, resolve=given)
    stack.engine.swap(policy_of(f"mode: observe\n{RULES}"))
    assert "resolve.unused" not in [event for event, _ in said(stack, resolve=given)]


@pytest.mark.parametrize(("profile", "told"), [("small", []), ("gone", ["gone"]), (None, ["default"])])
async def test_a_sandbox_whose_profile_is_not_there_is_told(
    stack: ProxyStack, profile: str | None, told: list[str]
) -> None:
    sandbox = stack.engine.sandboxes[SANDBOX]
    sandbox.identity = Identity(SANDBOX, profile)
    assert "profile.unknown" not in [event for event, _ in said(stack)]
    stack.engine.swap(policy_of(f"{RULES}profiles:\n  small: {{hosts: [api.example.com]}}\n"))
    assert [what for event, what in said(stack) if event == "profile.unknown"] == told


def test_warnings_are_told_and_errors_are_not() -> None:
    place = Place("hosts.yaml", 3, 4)
    kinds = [(Severity.WARNING, ""), (Severity.WARNING, "do"), (Severity.ERROR, "")]
    with capture_logs() as logged:
        log_findings(Finding(place, severity, "it is so", hint) for severity, hint in kinds)
    line = {
        "event": "rules.warning",
        "place": "hosts.yaml:3:4",
        "problem": "it is so",
        "log_level": "warning",
    }
    assert logged == [line, {**line, "hint": "do"}]


@pytest.mark.parametrize(
    ("handling", "found"),
    [
        ("allow: all, scrub: off", {"plain"}),
        ("allow: all", set()),
        ("allow: all, scrub: block", set()),
        ('allow: [{id: a, paths: ["/a"], scrub: off}, {id: b, paths: ["/b"]}]', {"plain"}),
    ],
)
def test_secrets_that_some_rule_does_not_search_for_are_found(handling: str, found: set[str]) -> None:
    rules = f"""\
version: 1
secrets:
  plain: {{from: "env:PLAIN", hosts: [api.example.com]}}
  other: {{from: "env:OTHER", hosts: [more.example.com]}}
hosts:
  api.example.com: {{{handling}, inject: [{{bearer: plain}}]}}
  more.example.com: {{allow: all, inject: [{{bearer: other}}]}}
"""
    assert unscrubbed_secrets(policy_of(rules)) == found


def test_a_notice_is_told_without_alarm() -> None:
    place = Place("hosts.yaml", 3, 4)
    with capture_logs() as logged:
        log_findings([Finding(place, Severity.NOTICE, "it was chosen")])
    assert logged == [
        {"event": "rules.notice", "place": "hosts.yaml:3:4", "notice": "it was chosen", "log_level": "info"}
    ]
