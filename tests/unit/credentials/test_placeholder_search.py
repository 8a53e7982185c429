"""egress/credentials/placeholder_search.py: whether and where a placeholder stands in a head."""

from __future__ import annotations

import base64
from dataclasses import FrozenInstanceError
from urllib.parse import quote

import pytest

from egress.credentials.placeholder import make_placeholder
from egress.credentials.placeholder_search import (
    NO_PLACEHOLDERS,
    Placeholder,
    Placeholders,
    PlaceholderSighting,
    base64_needles,
)
from egress.types import Head, SlotKind
from tests.unit.credentials.credential_samples import KEY, NEIGHBOUR_KEY, OTHER, SANDBOX, STAND_IN, request


def percent(text: str, times: int = 1) -> str:
    """Percent-encode every character, as often as asked."""
    for _ in range(times):
        text = "".join(f"%{ord(character):02x}" for character in text)
    return text


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def seen(head: Head) -> tuple[PlaceholderSighting, ...]:
    """What `find` reports, having checked that the quick answer agrees."""
    sightings = SANDBOX.find(head)
    assert SANDBOX.is_in(head) == bool(sightings)
    parts = [head.method, head.host, head.target, *(word for each in head.headers for word in each)]
    assert any(map(SANDBOX.is_in_text, parts)) == bool(sightings)
    return sightings


@pytest.mark.parametrize(
    ("head", "where"),
    [
        (request(f"/a/{STAND_IN}/b"), "path"),
        (request(f"/{STAND_IN}"), "path"),
        (request(f"/{percent(STAND_IN)}"), "path"),
        (request("/", method=STAND_IN), "path"),
        (request(f"/?{STAND_IN}"), "query"),
        (request(f"/?{STAND_IN}=1"), "query"),
        (request(f"/?q={STAND_IN}"), "query"),
        (request(f"/?q=x{STAND_IN}x#"), "query"),
        (request(f"/?q={percent(STAND_IN)}"), "query"),
        (request(f"/?u={quote(f'https://a/?t={STAND_IN}&x', safe='')}"), "query"),
        (request(f"/?q={coded(STAND_IN)}"), "query"),
        (request("/", ("x", STAND_IN)), "header"),
        (request("/", ("x", f"token {STAND_IN}")), "header"),
        (request("/", ("x", STAND_IN.upper())), "header"),
        (request("/", ("referer", f"https://a/{percent(STAND_IN)}")), "header"),
        (request("/", (STAND_IN.lower(), "1")), "header"),
        (request("/", ("proxy-authorization", f"Basic {coded(f'user:{STAND_IN}')}")), "header"),
        (request("/", ("cookie", f"a=1; b={STAND_IN}")), "cookie"),
        (request("/", ("cookie", f"{STAND_IN}=1")), "cookie"),
        (request("/", ("cookie", f"a={quote(coded(STAND_IN), safe='')}")), "cookie"),
        (Head("GET", "https", f"{STAND_IN.lower()}.example.com", 443, "/"), "header"),
    ],
)
def test_sees_it_everywhere_in_a_head(head: Head, where: SlotKind) -> None:
    assert seen(head) == (PlaceholderSighting("github", where),)


@pytest.mark.parametrize("user", ["", "u", "us", "use", "user", "x-access-token"])
@pytest.mark.parametrize("pair", ["{user}:{value}", "{value}:{user}", "{user}:{value}tail"])
def test_sees_it_in_basic_credentials_at_every_offset(user: str, pair: str) -> None:
    line = f"Basic {coded(pair.format(user=user, value=STAND_IN))}"
    assert seen(request("/", ("authorization", line))) == (PlaceholderSighting("github", "header"),)


@pytest.mark.parametrize("each", SANDBOX.all, ids=lambda each: each.like)
def test_sees_every_shape_plain_encoded_and_in_base64(each: Placeholder) -> None:
    value = each.value
    expected = PlaceholderSighting(each.secret, "header")
    for text in (value, value.upper(), percent(value), *(coded(lead + value) for lead in ("", "a", "ab"))):
        assert seen(request("/", ("x", f"[{text}]"))) == (expected,)


def test_tells_several_apart() -> None:
    head = request(f"/{STAND_IN}?{STAND_IN}={OTHER}", ("x", f"{OTHER} {OTHER} {STAND_IN}"))
    assert set(seen(head)) == {
        PlaceholderSighting("github", "path"),
        PlaceholderSighting("github", "query"),
        PlaceholderSighting("openai", "query"),
        PlaceholderSighting("openai", "header"),
        PlaceholderSighting("github", "header"),
    }


@pytest.mark.parametrize(
    "head",
    [
        request("/"),
        request("*"),
        request(f"/{STAND_IN[:-1]}", ("x", STAND_IN[1:])),
        request("/100%25/%zz%", ("user-agent", "100% %41 %2541")),
        request("/", ("x", STAND_IN[:20]), ("y", STAND_IN[20:])),
        request(f"/{make_placeholder('github', NEIGHBOUR_KEY, 'github')}"),
        request(f"/{make_placeholder('github', KEY, 'another')}"),
        Head("", "https", "", 0, ""),
    ],
)
def test_sees_nothing_where_there_is_nothing_of_this_sandbox(head: Head) -> None:
    assert seen(head) == ()


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_sees_through_layers_of_percent_encoding(times: int) -> None:
    assert PlaceholderSighting("github", "query") in seen(request(f"/?q={percent(STAND_IN, times)}"))


@pytest.mark.parametrize("times", [5, 6])
def test_what_nests_deeper_than_it_looks_counts_as_seen(times: int) -> None:
    assert seen(request(f"/?q={percent('innocent', times)}")) == (PlaceholderSighting(None, "query"),)


def test_deep_nesting_is_no_concern_of_a_sandbox_without_placeholders() -> None:
    assert NO_PLACEHOLDERS.find(request(f"/?q={percent('innocent', 6)}")) == ()
    assert not NO_PLACEHOLDERS.is_in(request(f"/{STAND_IN}"))


def test_characters_that_are_no_bytes_hide_nothing() -> None:
    assert PlaceholderSighting("github", "header") in seen(
        request("/", ("x", f"\u0141\ud800{STAND_IN}\U0001f511"))
    )


def test_base64_needles_are_what_any_neighbours_leave() -> None:
    value = STAND_IN.encode()
    needles = list(base64_needles(value))
    assert len(needles) == 3
    for lead in (b"", b"\xff", b"\xff\xff", b"abc"):
        for tail in (b"", b"\xff", b"\x00\x01"):
            whole = base64.b64encode(lead + value + tail)
            assert needles[len(lead) % 3] in whole


def test_gives_the_value_of_a_secret_in_a_shape() -> None:
    assert SANDBOX.value("github", "github") == make_placeholder("github", KEY, "github")
    assert SANDBOX.value("github", "aws") is None
    assert SANDBOX.value("nobody", "github") is None


def test_the_order_and_number_of_wishes_do_not_matter() -> None:
    one = Placeholders.of(KEY, [("a", "aws"), ("b", "uuid"), ("a", "aws"), ("a", "uuid")])
    other = Placeholders.of(KEY, [("a", "uuid"), ("b", "uuid"), ("a", "aws")])
    assert one == other
    assert len(one.all) == 3


def test_is_immutable_and_shows_names_only() -> None:
    with pytest.raises(FrozenInstanceError):
        SANDBOX.all = ()  # type: ignore[misc]
    shown = f"{SANDBOX} {SANDBOX!r} {SANDBOX.all}"
    assert "github" in shown
    assert STAND_IN not in shown
    assert KEY.hex() not in shown
