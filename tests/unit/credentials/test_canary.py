"""Planted values: each sandbox has its own, and a request with one is told from one without."""

from __future__ import annotations

from base64 import b64encode

import pytest

from egress.credentials import Canaries, CanarySighting
from egress.credentials.canary import SEEN_CODE, STOPPED_CODE
from egress.credentials.placeholder import make_placeholder
from egress.types import Head, Place, RuleRef

KEY = bytes(range(32))
DECOY = RuleRef("canaries", "decoy", Place("hosts.yaml", 3, 3))
TRAP = RuleRef("canaries", "trap", Place("hosts.yaml", 4, 3))
CANARIES = Canaries.of(KEY, [(DECOY, "aws", False), (TRAP, "github", True)])
VALUES = {each.secret: each.value for each in CANARIES.all}


def head(target: str = "/", *headers: tuple[str, str]) -> Head:
    return Head("GET", "https", "a.example.com", 443, target, headers)


def test_each_sandbox_has_its_own_and_no_placeholder_is_one() -> None:
    other = Canaries.of(bytes(32), [(DECOY, "aws", False)])
    assert VALUES["decoy"].startswith("AKIA")
    assert other.all[0].value != VALUES["decoy"]
    assert make_placeholder("aws", KEY, "decoy") != VALUES["decoy"]


def test_it_does_not_show_its_values() -> None:
    assert repr(CANARIES) == "Canaries(decoy, trap)"


def test_a_head_without_one_passes() -> None:
    assert CANARIES.seen_in(head("/a?b=c", ("authorization", "Bearer x"))) is None


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
    assert CANARIES.seen_in(found) == CanarySighting(SEEN_CODE, DECOY)


@pytest.mark.parametrize("layers", range(1, 9))
def test_one_is_not_missed_however_often_it_is_encoded(layers: int) -> None:
    """Where it is too deep to be told which it is, the request is denied and nobody is stopped."""
    value = "".join(f"%{ord(c):02x}" for c in VALUES["trap"])
    for _ in range(layers - 1):
        value = value.replace("%", "%25")
    assert CANARIES.seen_in(head(f"/?q={value}")) in (
        CanarySighting(STOPPED_CODE, TRAP),
        CanarySighting(SEEN_CODE),
    )


def test_the_code_says_whether_the_sandbox_is_to_be_stopped() -> None:
    assert CANARIES.seen_in(head(f"/{VALUES['trap']}")) == CanarySighting(STOPPED_CODE, TRAP)
    assert CANARIES.seen_in(head(f"/{VALUES['decoy']}")) == CanarySighting(SEEN_CODE, DECOY)


def test_of_several_that_one_is_named_by_which_the_sandbox_is_stopped() -> None:
    both = f"{VALUES['decoy']}/{VALUES['trap']}"
    assert CANARIES.seen_in(head(f"/{both}")) == CanarySighting(STOPPED_CODE, TRAP)
    assert CANARIES.seen_among(both.encode()) == CanarySighting(STOPPED_CODE, TRAP)


@pytest.mark.parametrize("offset", range(3))
def test_one_is_seen_in_bytes_in_each_spelling(offset: int) -> None:
    value = VALUES["decoy"].encode()
    assert CANARIES.seen_among(b"x" * offset + value) == CanarySighting(SEEN_CODE, DECOY)
    assert CANARIES.seen_among(b64encode(b"x" * offset + value + b"yy")) == CanarySighting(SEEN_CODE, DECOY)
    assert CANARIES.seen_among(b"%" + value[:1].hex().encode() + value[1:]) == CanarySighting(
        SEEN_CODE, DECOY
    )
    assert CANARIES.seen_among(value[:-1]) is None
    assert len(value) * 3 <= CANARIES.longest


@pytest.mark.parametrize("layers", range(1, 5))
def test_one_is_seen_in_bytes_however_often_it_is_encoded(layers: int) -> None:
    value = "".join(f"%{ord(c):02x}" for c in VALUES["trap"])
    whole = value
    for _ in range(layers - 1):
        value = value.replace("%", "%25")
        whole = "".join(f"%{ord(c):02x}" for c in whole)
    assert CANARIES.seen_among(value.encode()) == CanarySighting(STOPPED_CODE, TRAP)
    assert CANARIES.seen_among(whole.encode()) == CanarySighting(STOPPED_CODE, TRAP)
    assert len(value) <= CANARIES.longest


def test_bytes_that_could_be_decoded_for_ever_are_no_canary() -> None:
    """Other than of a head: a body may be anything, and what is found there ends an honest upload."""
    assert CANARIES.seen_among(b"%" + b"25" * 20 + b"41") is None


def test_one_is_seen_in_a_host_name() -> None:
    value = VALUES["decoy"].lower()
    assert CANARIES.seen_in_names(["", f"x.{value}.example.com"]) == CanarySighting(SEEN_CODE, DECOY)
    assert CANARIES.seen_in_names([f"x.{value[1:]}.example.com", ""]) is None
    assert CANARIES.masked(f"x.a{value}.example.com", ".") == f"x.{'*' * 21}.example.com"


@pytest.mark.parametrize(
    "part",
    [
        VALUES["decoy"],
        VALUES["decoy"].lower(),
        "a-" + VALUES["decoy"] + "-b",
        "".join(f"%{ord(c):02x}" for c in VALUES["decoy"]),
        b64encode(b"xx" + VALUES["decoy"].encode()).decode(),
    ],
)
def test_the_log_has_paths_without_it(part: str) -> None:
    assert CANARIES.masked(f"/v1/{part}/x") == f"/v1/{'*' * len(part)}/x"


def test_a_path_without_it_is_shown_as_it_is() -> None:
    assert CANARIES.masked("/v1/AKIA/x") == "/v1/AKIA/x"
