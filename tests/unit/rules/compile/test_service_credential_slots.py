"""egress/rules/compile/service_credential_slots.py: which services read a credential from several slots."""

from __future__ import annotations

import pytest

from egress.rules.compile.service_credential_slots import credential_slots
from egress.rules.language.hosts import parse_host_pattern


@pytest.mark.parametrize(
    ("host", "slots"),
    [
        ("api.anthropic.com", ["header:x-api-key", "header:authorization"]),
        ("*.anthropic.com", ["header:x-api-key", "header:authorization"]),
        ("acme.openai.azure.com", ["header:api-key", "header:authorization"]),
        ("*.openai.azure.com", ["header:api-key", "header:authorization"]),
        ("anthropic.com", []),
        ("api.anthropic.com.example.org", []),
        ("api.github.com", []),
    ],
)
def test_the_slots_of_a_host(host: str, slots: list[str]) -> None:
    assert [str(slot) for slot in credential_slots(parse_host_pattern(host))] == slots
