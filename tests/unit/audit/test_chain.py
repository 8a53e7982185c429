"""The chain: how a line is made, taken apart and proven."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest

from egress.audit.chain import TAIL, ZERO_MAC, Chain, Keys, is_authentic, parse_line
from tests.unit.audit.sample import KEY

KEYS = Keys.of(KEY)


def sealed(*bodies: str) -> list[bytes]:
    chain = Chain(KEYS.line)
    return [chain.seal("T", body).removesuffix(b"\n") for body in bodies]


def test_a_line_is_json_with_the_mac_last() -> None:
    (line,) = sealed('"event":"stopped"')
    assert list(json.loads(line)) == ["seq", "time", "event", "mac"]


def test_the_mac_is_over_the_one_before_and_the_content() -> None:
    """Written out by hand: whoever has the key can check a log with nothing of ours."""
    first, second = sealed('"a":1', '"b":2')
    key = hmac.digest(KEY, b"egress audit line", "sha256")
    mac = hmac.new(key, bytes(32) + first[:-TAIL], hashlib.sha256)
    assert json.loads(first)["mac"] == mac.hexdigest()
    after = hmac.new(key, mac.digest() + second[:-TAIL], hashlib.sha256)
    assert json.loads(second)["mac"] == after.hexdigest()


def test_numbers_begin_at_one_and_grow() -> None:
    assert [json.loads(line)["seq"] for line in sealed('"a":1', '"a":1', '"a":1')] == [1, 2, 3]


def test_a_line_follows_only_from_the_line_before_it() -> None:
    first, second = (parse_line(line) for line in sealed('"a":1', '"b":2'))
    assert first is not None
    assert second is not None
    chain = Chain(KEYS.line)
    assert is_authentic(chain, ZERO_MAC, first)
    assert is_authentic(chain, first.mac, second)
    assert not is_authentic(chain, ZERO_MAC, second)
    assert not is_authentic(Chain(KEYS.head), ZERO_MAC, first)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b'{"seq":0,"mac":"' + b"0" * 64 + b'"}',
        b'{"seq":1,"mac":"' + b"A" * 64 + b'"}',
        b'{"seq":1,"mac":"' + b"0" * 63 + b'"}',
        b'{"seq":1,"x":1,"mac": "' + b"0" * 64 + b'"}',
        b' {"seq":1,"x":1,"mac":"' + b"0" * 64 + b'"}',
        b'{"seq":1,"x":1,"mac":"' + b"0" * 64 + b'"} ',
    ],
)
def test_what_has_another_form_is_no_line(line: bytes) -> None:
    assert parse_line(line) is None


def test_the_key_has_one_length_and_does_not_show() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Keys.of(b"short")
    assert KEYS.line.hex() not in repr(KEYS)
    assert len({KEYS.line, KEYS.head, KEYS.anchor, KEY}) == 4
