"""Line 41 of docs/reference/language.md: what nothing may send. That it is denied is held by tests/proxy."""

from __future__ import annotations

import pytest

from tests.unit.rules.rule_samples import errors, policy


def test_41_a_canary_has_a_form_and_a_place() -> None:
    found = policy("canaries: {key: {like: aws, env: KEY, file: ~/.env, text: 'KEY={value}', stop: true}}")
    [each] = found.canaries
    assert (each.name, each.like, each.env, each.file, each.text, each.stop) == (
        "key", "aws", "KEY", "~/.env", "KEY={value}", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        ("{}", "`like`"),
        ("{like: aws, env: HTTPS_PROXY}", "need themselves"),
        ("{like: aws, file: ~/../key}", "is not a file in a sandbox"),
        ("{like: aws, file: /dev/key}", "a canary cannot be planted"),
        ("{like: aws, text: '{value}'}", "`file` is missing"),
        ("{like: aws, file: /a, text: KEY}", "exactly once"),
        ("{like: aws, value: AKIA}", "`value`"),
    ],
)
def test_41_what_cannot_be_planted_is_an_error(item: str, complaint: str) -> None:
    [found] = errors(f"canaries: {{key: {item}}}")
    assert complaint in found


def test_41_two_in_one_place_are_an_error() -> None:
    two = "canaries: {a: {like: aws, file: ~/a}, b: {like: aws, file: ~/a}, c: {like: aws, env: A}}"
    assert ["is already planted there" in found for found in errors(two)] == [True]
