"""Planted values: each sandbox has its own, and a request with one is told from one without."""

from __future__ import annotations

from base64 import b64encode

import pytest

from egress.credentials import Canaries
from egress.credentials.canary import SEEN, STOPPED
from egress.credentials.placeholder import make
from egress.types import Head

KEY = bytes(range(32))
CANARIES = Canaries.of(KEY, [("decoy", "aws", False), ("trap", "github", True)])
VALUES = {each.secret: each.value for each in CANARIES.all}


def head(target: str = "/", *headers: tuple[str, str]) -> Head:
    return Head("GET", "https", "a.example.com", 443, target, headers)


def test_each_sandbox_has_its_own_and_no_placeholder_is_one() -> None:
    other = Canaries.of(bytes(32), [("decoy", "aws", False)])
    assert VALUES["decoy"].startswith("AKIA")
    assert other.all[0].value != VALUES["decoy"]
    assert make("aws", KEY, "decoy") != VALUES["decoy"]


def test_it_does_not_show_its_values() -> None:
    assert repr(CANARIES) == "Canaries(decoy, trap)"


def test_a_head_without_one_passes() -> None:
    assert CANARIES.seen_in(head("/a?b=c", ("authorization", "Bearer x"))) == ""


@pytest.mark.parametrize(
    "found",
    [
        head(f"/x/{VALUES['decoy']}"),
        head(f"/?q={VALUES['decoy'].lower()}"),
        head("/?q=" + "".join(f"%{ord(c):02x}" for c in VALUES["decoy"])),
        head("/", ("authorization", f"AWS4 {VALUES['decoy']}/x")),
        head("/", ("authorization", "Basic " + b64encode(f"me:{VALUES['decoy']}".encode()).decode())),
        head("/", ("cookie", f"a={VALUES['decoy']}")),
    ],
)
def test_one_is_seen_wherever_it_stands_in_a_head(found: Head) -> None:
    assert CANARIES.seen_in(found) == SEEN


@pytest.mark.parametrize("layers", range(1, 9))
def test_one_is_not_missed_however_often_it_is_encoded(layers: int) -> None:
    """Where it is too deep to be told which it is, the request is denied and nobody is stopped."""
    value = "".join(f"%{ord(c):02x}" for c in VALUES["trap"])
    for _ in range(layers - 1):
        value = value.replace("%", "%25")
    assert CANARIES.seen_in(head(f"/?q={value}")) in (SEEN, STOPPED)


def test_the_code_says_whether_the_sandbox_is_to_be_stopped() -> None:
    assert CANARIES.seen_in(head(f"/{VALUES['trap']}")) == STOPPED
    assert CANARIES.seen_in(head(f"/{VALUES['trap']}/{VALUES['decoy']}")) == STOPPED


@pytest.mark.parametrize("offset", range(3))
def test_one_is_seen_in_bytes_in_each_spelling(offset: int) -> None:
    value = VALUES["decoy"].encode()
    assert CANARIES.seen_among(b"x" * offset + value) == SEEN
    assert CANARIES.seen_among(b64encode(b"x" * offset + value + b"yy")) == SEEN
    assert CANARIES.seen_among(b"%" + value[:1].hex().encode() + value[1:]) == SEEN
    assert CANARIES.seen_among(value[:-1]) == ""
    assert len(value) * 3 <= CANARIES.longest
