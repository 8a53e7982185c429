"""What looks like a credential, and what only looks a little like one."""

from __future__ import annotations

import pytest

from egress.rules.language.credential_guess import looks_like_credential


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


PLAIN, DASHED, UPPER = "Zz9", "Zz9_-", "Z9"
SHAPES = {
    **{f"gh{kind}_": (20, PLAIN) for kind in "pousr"},
    "github_pat_": (20, "Zz9_"),
    **{
        f"gl{kind}-": (16, DASHED)
        for kind in ["pat", "oas", "dt", "rt", "cbt", "ptt", "ft", "imt", "agent", "soat", "ffct"]
    },
    "sk-": (16, "Z9"),
    **dict.fromkeys(("AKIA", "ASIA"), (16, UPPER)),
    **{f"xox{kind}-": (10, "Zz9-") for kind in "abeoprs"},
    "xapp-": (10, "Zz9-"),
    "AIza": (30, DASHED),
    "ya29.": (20, DASHED),
    "npm_": (30, PLAIN),
    "pypi-": (30, DASHED),
    "hf_": (30, PLAIN),
    **{f"{key}_{mode}_": (16, PLAIN) for key in ("sk", "rk", "pk") for mode in ("live", "test")},
}


@pytest.mark.parametrize("prefix", SHAPES)
def test_knows_each_published_shape_by_its_prefix_and_length(prefix: str) -> None:
    """None of these bodies would be taken for random: only the shape tells."""
    least, characters = SHAPES[prefix]
    for character in characters:
        assert looks_like_credential(f"{prefix}{character * least}!")
        assert looks_like_credential(f"x={prefix}{character * least} and more")
        assert not looks_like_credential(f"{prefix}{character * (least - 1)}!")
        assert not looks_like_credential(f"x={prefix}{character * (least - 1)} and more")
    for before in "xX1":
        assert not looks_like_credential(f"{before}{prefix}{characters[0] * least}!")


def test_a_key_for_models_may_have_words_in_front() -> None:
    for words in ("a-b", "a_b"):
        assert looks_like_credential(f"sk-{words}{'Z' * 16}")


def test_knows_a_token_of_hexadecimal_digits_by_its_prefix_whatever_follows() -> None:
    for digit in "af09":
        assert looks_like_credential(f"dop_v1_{digit * 40}z")
        assert not looks_like_credential(f"dop_v1_{digit * 39}z")


def test_what_has_fewer_than_16_characters_is_no_credential() -> None:
    assert looks_like_credential("xoxb-abcdefghijk")
    assert not looks_like_credential("xoxb-abcdefghij")


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_knows_each_kind_of_private_key(kind: str) -> None:
    assert looks_like_credential(f"-----BEGIN {kind}PRIVATE KEY-----")
    assert not looks_like_credential(f"-----BEGIN {kind}PUBLIC KEY-----")


@pytest.mark.parametrize("line", ["----BEGIN PRIVATE KEY", "-----BEGINPRIVATE KEY", "-----BEGIN RIVATE KEY",
                                  "-----BEGIN PRIVATE KEG"])  # fmt: skip
def test_what_only_resembles_a_private_key_is_none(line: str) -> None:
    assert not looks_like_credential(line)


def test_a_token_of_three_parts_begins_like_json() -> None:
    for character in "Zz9_-":
        ten = character * 10
        assert looks_like_credential(f"eyJ{ten}.{ten}.")
        assert not looks_like_credential(f"eyJ{ten[:-2]}.{ten}.")
        assert not looks_like_credential(f"eyJ{ten}.{ten[:-2]}.")
        assert not looks_like_credential(f"eyJ{ten}.{ten}")
        assert not looks_like_credential(f"eyX{ten}.{ten}.")


def test_a_run_of_hexadecimal_digits_is_a_key_from_32_on() -> None:
    for character in "0aFf9A":
        assert looks_like_credential(character * 32)
        assert looks_like_credential(f"x={character * 40}")
        assert not looks_like_credential(character * 31)
        for other in "gZ":
            assert not looks_like_credential(f"{other}{character * 40}")
            assert not looks_like_credential(f"{character * 40}{other}")


def test_what_looks_random_needs_length_and_three_kinds_of_signs() -> None:
    random = "q7Zx3LmP9sT2vWkR5nYbC8dHfJ4gAeU1"
    assert looks_like_credential(random)
    assert not looks_like_credential(random[:-1])
    assert not looks_like_credential(random.lower().replace("q", "g"))
    assert not looks_like_credential(random.upper())
    assert not looks_like_credential("".join(c if c.isalpha() else "x" for c in random))


@pytest.mark.parametrize("sign", "+=_-")
def test_what_looks_random_may_have_signs_of_base64_in_it(sign: str) -> None:
    assert looks_like_credential(f"q7Zx3LmP9sT2vWkR{sign}5nYbC8dHfJ4gAeU")


@pytest.mark.parametrize("sign", "Aa0+/=_-")
def test_the_secret_of_an_access_key_has_40_signs_and_no_more(sign: str) -> None:
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    assert looks_like_credential(f"({secret})")
    assert looks_like_credential(f"({secret.replace('/b', '+b')})")
    assert looks_like_credential(f"{sign}{secret}") is (sign == "=")
    assert not looks_like_credential(f"{secret}{sign}")


@pytest.mark.parametrize("before", ["AWS_SECRET_ACCESS_KEY=", "key=", "?k=v&secret=", "x=="])
def test_the_secret_of_an_access_key_may_stand_behind_its_name(before: str) -> None:
    assert looks_like_credential(f"{before}wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    assert not looks_like_credential(f"{before}repos/acme/widgets/Releases/2027/archive")
