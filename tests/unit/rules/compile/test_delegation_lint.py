"""Delegations that do less than they seem to are warned about; those beside a credential are noticed."""

from __future__ import annotations

import pytest

from egress.types import Severity
from tests.unit.rules.rule_samples import loaded

FILE = """
    secrets: {{token: {{from: "env:TOKEN", hosts: [api.example.com]}}}}
    hosts:
      api.example.com: {{allow: [{{id: read, methods: [GET]}}], inject: [{{bearer: token}}]}}
      "*.blind.example": {{intercept: never}}
      closed.example: {{allow: []}}
      odd.example: {{ports: [8443]}}
      "**.example": {{}}
    delegate: [{{id: x, to: {{sandboxes: [box]}}, ttl: 60, {}}}]
"""


def found(keys: str, severity: Severity) -> list[str]:
    return [item.message for item in loaded(FILE.format(keys)).findings if item.severity is severity]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("hosts: ['**.co.uk']", "`x` delegates `**.co.uk`, where anybody can register names"),
        ("hosts: [a.blind.example]", "can allow nothing on `*.blind.example`: `intercept: never`"),
        ("hosts: ['**.blind.example']", "can allow nothing on `*.blind.example`: `intercept: never`"),
        ("hosts: [closed.example]", "can allow nothing on `closed.example`: `allow: []`"),
        ("hosts: [odd.example]", "can allow nothing on `odd.example`: the host has other ports"),
    ],
)
def test_what_can_allow_nothing_is_warned_about(keys: str, message: str) -> None:
    (warning,) = found(keys, Severity.WARNING)
    assert message in warning
    assert not found(f"{keys}, may: [deny]", Severity.WARNING)


def test_a_host_with_a_credential_is_noticed() -> None:
    (notice,) = found("hosts: ['*.example.com']", Severity.NOTICE)
    assert "`api.example.com`, which gets a credential" in notice
    assert not found("hosts: ['*.example.com'], may: [deny]", Severity.NOTICE)


@pytest.mark.parametrize(
    "keys", ["hosts: [a.example]", "hosts: [new.org]", "hosts: [odd.example], ports: [8443]"]
)
def test_a_delegation_with_an_effect_is_fine(keys: str) -> None:
    assert not found(keys, Severity.WARNING)
    assert not found(keys, Severity.NOTICE)
