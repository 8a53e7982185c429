"""A port is seen by whoever has its token, and the sandbox sees neither token nor cookie."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.fleet.preview_access import (
    COOKIE_NAME,
    LABEL_ALPHABET,
    RANDOM_LENGTH,
    PreviewForward,
    PreviewRedirect,
    PreviewRefusal,
    ShownPort,
    decide_preview,
    port_label,
    without_cookie,
)
from egress.http1 import RequestHead
from egress.types import Headers

TOKEN = "t" * 43
SHOWN = ShownPort("one", 8000, "8000-one.localhost:5000", TOKEN)
OTHER = ShownPort("two", 8000, "8000-two.localhost:5000", "o" * 43)
ALL = {each.host: each for each in (SHOWN, OTHER)}
WITH: Headers = (("cookie", f"{COOKIE_NAME}={TOKEN}"),)
NAMES = st.from_regex(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?", fullmatch=True)


def asked(
    target: str = "/", headers: Headers = (), *, host: str = SHOWN.host, method: str = "GET"
) -> RequestHead:
    return RequestHead(method, target, "origin", (("host", host), *headers), host=host)


def test_the_address_that_is_given_leads_to_the_cookie_and_back_without_the_token() -> None:
    assert SHOWN.url == f"http://8000-one.localhost:5000/?token={TOKEN}"
    verdict = decide_preview(asked(f"/?token={TOKEN}"), ALL)
    assert isinstance(verdict, PreviewRedirect)
    assert verdict.location == "http://8000-one.localhost:5000/"
    assert verdict.cookie == f"{COOKIE_NAME}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"


def test_the_cookie_opens_and_does_not_go_on() -> None:
    verdict = decide_preview(
        asked("/a?b=c", (("cookie", f"a=1; {COOKIE_NAME}={TOKEN}; b=2"), ("accept", "*/*"))), ALL
    )
    assert verdict == PreviewForward(
        SHOWN, "/a?b=c", (("host", SHOWN.host), ("cookie", "a=1; b=2"), ("accept", "*/*"))
    )


def test_a_token_never_goes_on_even_with_the_cookie() -> None:
    verdict = decide_preview(asked(f"/a?x=1&token={TOKEN}&y=2", WITH), ALL)
    assert isinstance(verdict, PreviewRedirect)
    assert verdict.location.endswith("/a?x=1&y=2")
    turned = decide_preview(asked(f"/?token={TOKEN}", WITH, method="POST"), ALL)
    assert isinstance(turned, PreviewRefusal)
    assert turned.status == 403


def test_a_token_of_the_program_itself_goes_on() -> None:
    assert decide_preview(asked("/?token=its-own", WITH), ALL) == PreviewForward(
        SHOWN, "/?token=its-own", (("host", SHOWN.host),)
    )


def test_the_way_back_stays_on_this_origin() -> None:
    """A target that begins with two slashes is a path here; a browser would take it for a host."""
    verdict = decide_preview(asked(f"//evil.example/?token={TOKEN}"), ALL)
    assert isinstance(verdict, PreviewRedirect)
    assert verdict.location == "http://8000-one.localhost:5000//evil.example/"


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/", ()),
        ("/?token=", ()),
        ("/?token=" + "x" * 43, ()),
        ("/?token=" + OTHER.token, ()),
        ("/?Token=" + TOKEN, ()),
        ("/", (("cookie", f"{COOKIE_NAME}={OTHER.token}"),)),
        ("/", (("cookie", f"{COOKIE_NAME}="),)),
        ("/", (("cookie", f"other={TOKEN}"),)),
        ("/", (("authorization", TOKEN),)),
        ("/?token=\xff", (("cookie", f"{COOKIE_NAME}=\xff"),)),
    ],
    ids=map(str, range(10)),
)
def test_whoever_has_not_the_token_of_this_port_sees_nothing(target: str, headers: Headers) -> None:
    verdict = decide_preview(asked(target, headers), ALL)
    assert isinstance(verdict, PreviewRefusal)
    assert verdict.status == 403
    assert TOKEN not in verdict.text


@pytest.mark.parametrize(
    "host",
    ["", "localhost:5000", "127.0.0.1:5000", "8000-one.localhost", "8000-one.localhost:5001", "evil.example",
     "8000-one.localhost.evil.example:5000", "x.8000-one.localhost:5000", "8000-one.localhost.:5000"],
)  # fmt: skip
def test_a_foreign_host_is_refused_whatever_it_brings(host: str) -> None:
    verdict = decide_preview(asked(f"/?token={TOKEN}", WITH, host=host), ALL)
    assert isinstance(verdict, PreviewRefusal)
    assert verdict.status == 421


def test_a_host_is_a_host_in_any_case() -> None:
    assert isinstance(decide_preview(asked("/", WITH, host="8000-ONE.localhost:5000"), ALL), PreviewForward)


def test_a_whole_address_is_no_path() -> None:
    head = RequestHead("GET", "http://8000-one.localhost:5000/", "absolute", WITH, host=SHOWN.host)
    assert isinstance(decide_preview(head, ALL), PreviewRefusal)


def test_several_cookie_fields_are_all_looked_at() -> None:
    headers: Headers = (
        ("cookie", "a=1"),
        ("cookie", f"{COOKIE_NAME}={TOKEN}"),
        ("cookie", f"{COOKIE_NAME}=x;b=2"),
    )
    verdict = decide_preview(asked("/", headers), ALL)
    assert isinstance(verdict, PreviewForward)
    assert verdict.headers == (("host", SHOWN.host), ("cookie", "a=1"), ("cookie", "b=2"))


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30), max_size=6))
def test_our_cookie_is_never_among_what_goes_on(parts: list[str]) -> None:
    value = "; ".join([*parts[:3], f"{COOKIE_NAME}={TOKEN}", *parts[3:]])
    left = without_cookie((("cookie", value), ("accept", "a")))
    names = [part.partition("=")[0].strip() for _, each in left for part in each.split(";")]
    assert COOKIE_NAME not in names
    assert left[-1] == ("accept", "a")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"), max_size=40))
def test_a_target_that_brings_the_token_is_sent_on_without_it(query: str) -> None:
    verdict = decide_preview(asked(f"/p?{query}&token={TOKEN}"), ALL)
    assert isinstance(verdict, PreviewRedirect)
    assert f"token={TOKEN}" not in verdict.location.split("?", 1)[-1].split("&")
    assert isinstance(
        decide_preview(asked(verdict.location.removeprefix(f"http://{SHOWN.host}"), WITH), ALL),
        PreviewForward,
    )


CHANCES = st.text(LABEL_ALPHABET, min_size=RANDOM_LENGTH, max_size=RANDOM_LENGTH)


@given(NAMES, st.integers(1, 65535), CHANCES, NAMES, st.integers(1, 65535), CHANCES)
def test_every_showing_has_a_label_of_its_own_without_dots(
    a: str, m: int, x: str, b: str, n: int, y: str
) -> None:
    """Whatever the names are, and be it that one ends like the label of another: what was drawn differs."""
    one, other = port_label(a, m, x), port_label(b, n, y)
    if x != y:
        assert one != other
    assert re.fullmatch(r"[0-9][a-z0-9-]{0,61}[a-z2-7]", one)


def test_what_is_drawn_cannot_be_guessed() -> None:
    assert len(set(LABEL_ALPHABET)) ** RANDOM_LENGTH >= 2**40


def test_a_name_stays_readable() -> None:
    assert port_label("one", 8000, "k3f7q2mxta") == "8000-one-k3f7q2mxta"
    assert port_label("a.b_", 80, "k3f7q2mxta") == "80-a-b-k3f7q2mxta"


@pytest.mark.parametrize("target", ["/worker.js", f"/worker.js?token={TOKEN}"])
def test_no_service_worker_is_installed_that_would_outlive_the_sandbox(target: str) -> None:
    fetched: Headers = (("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "serviceworker"))
    verdict = decide_preview(asked(target, (*WITH, ("service-worker", "script"), *fetched)), ALL)
    assert isinstance(verdict, PreviewRefusal)
    assert verdict.status == 403
    assert "service worker" in verdict.text


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("origin", f"http://{SHOWN.host}"),),
        (("sec-fetch-site", "same-origin"),),
        (("sec-fetch-site", "none"),),
        (("origin", "null"), ("sec-fetch-site", "same-origin")),
    ],
    ids=str,
)
def test_a_page_of_the_same_origin_and_a_person_may_ask(headers: Headers) -> None:
    """The good twin."""
    for method in ("GET", "POST"):
        assert isinstance(decide_preview(asked("/", (*WITH, *headers), method=method), ALL), PreviewForward)


@pytest.mark.parametrize(
    "headers",
    [
        (("origin", "http://evil.example"),),
        (("origin", "http://8000-one.localhost:6000"),),
        (("origin", f"https://{SHOWN.host}"),),
        (("origin", f"http://{OTHER.host}"),),
        (("origin", f"http://{SHOWN.host}"), ("origin", "http://evil.example")),
        (("origin", "null"),),
        (("origin", "null"), ("sec-fetch-site", "none")),
        (("origin", "null"), ("sec-fetch-site", "cross-site")),
        (("origin", ""),),
        (("sec-fetch-site", "cross-site"),),
        (("sec-fetch-site", "same-site"),),
        (("sec-fetch-site", "same-site"), ("sec-fetch-site", "same-origin")),
        (("origin", f"http://{SHOWN.host}"), ("sec-fetch-site", "same-site")),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_script_of_another_site_is_turned_away_although_the_cookie_came_along(
    headers: Headers, method: str
) -> None:
    """A cookie holds for a host at every port, and whoever is on this machine can listen at one."""
    verdict = decide_preview(asked("/", (*WITH, ("upgrade", "websocket"), *headers), method=method), ALL)
    assert isinstance(verdict, PreviewRefusal)
    assert verdict.status == 403
    assert "Cross-site" in verdict.text


def test_a_token_is_in_no_repr() -> None:
    assert TOKEN not in repr(SHOWN)
    assert TOKEN not in repr(decide_preview(asked(f"/?token={TOKEN}"), ALL))
