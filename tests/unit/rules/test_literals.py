"""What looks like a credential, and what only looks a little like one."""

from __future__ import annotations

import pytest

from egress.rules.literals import looks_like_credential


@pytest.mark.parametrize(
    "text",
    [
        "ghp_" + "a1B2" * 9, "github_pat_" + "a1B2" * 9, "gho_" + "A" * 36, "glpat-" + "a1B2" * 5,
        "sk-" + "a1B2" * 12, "sk-ant-api03-" + "a1B2" * 9, "sk-proj-" + "a1-B2_" * 5,
        "AKIA" + "IOSFODNN7EXAMPLE",
        "xoxb-" + "1234567890-abcdef", "AIza" + "a1B2" * 9, "ya29." + "a1B2" * 9, "npm_" + "a1B2" * 9,
        "pypi-" + "AgEI" * 9, "hf_" + "aBcD" * 9, "sk_live_" + "a1B2" * 5, "dop_v1_" + "a1" * 32,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----",
        "0123456789abcdef" * 2, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "q7Zx3LmP9sT2vWkR5nYbC8dHfJ4gAeU1",
        "Bearer ghp_" + "a1B2" * 9, "env:ghp_" + "a1B2" * 9, "x=" + "0123456789ABCDEF" * 2,
    ],
)  # fmt: skip
def test_knows_a_credential(text: str) -> None:
    assert looks_like_credential(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "GITHUB_TOKEN", "env:GITHUB_TOKEN", "file:/run/secrets/github-token", "api.github.com",
        "file:/srv/Alice/Projects2027/secrets/github-token", "/repos/acme/*/issues/**",
        "task-management-dashboard-api",
        "risk-management-service.example.com", "disk-usage-reports-everything",
        "global-accelerator-endpoint.example.com",
        "glue-catalog-something-long.example.com", "command:pass show work/github/Token2",
        "sk-only-words-in-lower-case",
        "2027-01-15T08:00:00+01:00", "550e8400-e29b-41d4-a716-446655440000",
        "a-very-long-rule-id-that-says-what-it-does",
        "vault:secret/data/Production2/github/api-token#value", "x" * 200,
        "WWW-AUTHENTICATE-SOMETHING-LONG-HEADER",
        "arn:aws:secretsmanager:eu-central-1:123456789012:secret:github", "application/vnd.github.v3+json",
    ],
)  # fmt: skip
def test_lets_names_hosts_and_paths_be(text: str) -> None:
    assert not looks_like_credential(text)
