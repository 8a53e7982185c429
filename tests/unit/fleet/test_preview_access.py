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
    SECURE_COOKIE_NAME,
    TOKEN_HEADER,
    PreviewForward,
    PreviewRedirect,
    PreviewRefusal,
    ShownPort,
    decide_preview,
    port_label,
    with_own_cookies,
    without_cookie,
)
from egress.fleet.protocol import Preview
from egress.http1 import RequestHead
from egress.types import Headers

TOKEN = "t" * 43
SHOWN = ShownPort("one", 8000, "8000-one.localhost:5000", TOKEN)
OTHER = ShownPort("two", 8000, "8000-two.localhost:5000", "o" * 43)
ALL = {each.host: each for each in (SHOWN, OTHER)}
SECURE = ShownPort("one", 8000, "8000-one.previews.example.com", TOKEN, "https")
WITH: Headers = (("cookie", f"{COOKIE_NAME}={TOKEN}"),)
BY_FIELD: Headers = ((TOKEN_HEADER, TOKEN),)
PAGE: Headers = (("accept", "text/html,*/*;q=0.8"),)
PLAIN: Headers = (("x-forwarded-proto", "http"),)
"""What every request to the sandbox has."""
NAMES = st.from_regex(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?", fullmatch=True)


def asked(
    target: str = "/", headers: Headers = (), *, host: str = SHOWN.host, method: str = "GET"
) -> RequestHead:
    return RequestHead(method, target, "origin", (("host", host), *headers), host=host)


def test_the_address_that_is_given_leads_to_the_cookie_and_back_without_the_token() -> None:
    url = Preview("one", 8000, SHOWN.origin, TOKEN).url
    assert url == f"http://8000-one.localhost:5000/?token={TOKEN}"
    verdict = decide_preview(asked(f"/?token={TOKEN}", PAGE), ALL)
    assert isinstance(verdict, PreviewRedirect)
    assert verdict.location == "http://8000-one.localhost:5000/"
    assert verdict.cookie == f"{COOKIE_NAME}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"


def test_the_cookie_opens_and_does_not_go_on() -> None:
    verdict = decide_preview(
        asked("/a?b=c", (("cookie", f"a=1; {COOKIE_NAME}={TOKEN}; b=2"), ("accept", "*/*"))), ALL
    )
    assert verdict == PreviewForward(
        SHOWN, "/a?b=c", (("host", SHOWN.host), ("cookie", "a=1; b=2"), ("accept", "*/*"), *PLAIN)
    )


def test_a_token_never_goes_on_even_with_the_cookie() -> None:
    verdict = decide_preview(asked(f"/a?x=1&token={TOKEN}&y=2", (*WITH, *PAGE)), ALL)
    assert isinstance(verdict, PreviewRedirect)
    assert verdict.location.endswith("/a?x=1&y=2")
    posted = decide_preview(asked(f"/?token={TOKEN}", (*WITH, *PAGE), method="POST"), ALL)
    assert posted == PreviewForward(SHOWN, "/", (("host", SHOWN.host), *PAGE, *PLAIN))


def test_a_token_of_the_program_itself_goes_on() -> None:
    assert decide_preview(asked("/?token=its-own", WITH), ALL) == PreviewForward(
        SHOWN, "/?token=its-own", (("host", SHOWN.host), *PLAIN)
    )


def test_the_way_back_stays_on_this_origin() -> None:
    """A target that begins with two slashes is a path here; a browser would take it for a host."""
    verdict = decide_preview(asked(f"//evil.example/?token={TOKEN}", PAGE), ALL)
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
    assert verdict.headers == (("host", SHOWN.host), ("cookie", "a=1"), ("cookie", "b=2"), *PLAIN)


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30), max_size=6))
def test_our_cookie_is_never_among_what_goes_on(parts: list[str]) -> None:
    value = "; ".join([*parts[:3], f"{COOKIE_NAME}={TOKEN}", *parts[3:]])
    left = without_cookie((("cookie", value), ("accept", "a")))
    names = [part.partition("=")[0].strip() for _, each in left for part in each.split(";")]
    assert COOKIE_NAME not in names
    assert left[-1] == ("accept", "a")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"), max_size=40))
def test_a_target_that_brings_the_token_is_sent_on_without_it(query: str) -> None:
    verdict = decide_preview(asked(f"/p?{query}&token={TOKEN}", PAGE), ALL)
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
    assert TOKEN not in repr(Preview("one", 8000, SHOWN.origin, TOKEN))
    assert TOKEN not in repr(decide_preview(asked(f"/?token={TOKEN}", PAGE), ALL))
    assert TOKEN not in repr(decide_preview(asked("/", ((TOKEN_HEADER, "wrong"),)), ALL))


# Clients that are no browsers ---------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(("target", "headers"), [(f"/a?x=1&token={TOKEN}", ()), ("/a?x=1", BY_FIELD)])
def test_a_program_shows_the_token_with_each_request_and_the_sandbox_does_not_see_it(
    method: str, target: str, headers: Headers
) -> None:
    verdict = decide_preview(asked(target, (*headers, ("accept", "*/*")), method=method), ALL)
    assert verdict == PreviewForward(SHOWN, "/a?x=1", (("host", SHOWN.host), ("accept", "*/*"), *PLAIN))


def test_a_page_that_fetches_with_the_token_gets_no_redirect() -> None:
    fetched: Headers = (("sec-fetch-mode", "cors"), ("sec-fetch-site", "same-origin"), *PAGE)
    assert isinstance(decide_preview(asked(f"/?token={TOKEN}", fetched), ALL), PreviewForward)
    opened: Headers = (("sec-fetch-mode", "navigate"), ("accept", "*/*"))
    assert isinstance(decide_preview(asked(f"/?token={TOKEN}", opened), ALL), PreviewRedirect)


def test_a_page_of_another_site_gets_nothing_with_the_token_either() -> None:
    for headers in ((("origin", "http://evil.example"),), (("sec-fetch-site", "cross-site"),)):
        for shown, target in ((BY_FIELD, "/"), ((), f"/?token={TOKEN}")):
            verdict = decide_preview(asked(target, (*shown, *headers)), ALL)
            assert isinstance(verdict, PreviewRefusal)
            assert "Cross-site" in verdict.text


def test_a_link_on_another_page_leads_to_the_preview() -> None:
    """The good twin: somebody opens the address from a chat. The request after a redirect had no cookie."""
    linked: Headers = (("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), *PAGE)
    verdict = decide_preview(asked(f"/a?token={TOKEN}", linked), ALL)
    assert isinstance(verdict, PreviewRedirect)
    assert (verdict.location, verdict.is_linked) == (f"{SHOWN.origin}/a", True)
    typed = decide_preview(asked(f"/a?token={TOKEN}", (("sec-fetch-site", "none"), *PAGE)), ALL)
    assert isinstance(typed, PreviewRedirect)
    assert not typed.is_linked


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/", ((TOKEN_HEADER, "x"),)),
        ("/", ((TOKEN_HEADER, ""),)),
        ("/", ((TOKEN_HEADER, OTHER.token),)),
        ("/", (*BY_FIELD, (TOKEN_HEADER, "x"))),
        ("/", (*WITH, (TOKEN_HEADER, "x"))),
        (f"/?token={TOKEN}", ((TOKEN_HEADER, "x"),)),
        ("/?token=x", ()),
        ("/?a=b&token=", ()),
        ("/", (("cookie", f"{COOKIE_NAME}=x"),)),
        ("/", (("cookie", f"{SECURE_COOKIE_NAME}=x"),)),
    ],
    ids=map(str, range(10)),
)
def test_a_wrong_token_is_counted_for_its_port(target: str, headers: Headers) -> None:
    verdict = decide_preview(asked(target, headers), ALL)
    assert isinstance(verdict, PreviewRefusal)
    assert (verdict.status, verdict.guessed) == (403, SHOWN)


def test_a_request_without_any_token_is_no_guess() -> None:
    verdict = decide_preview(asked("/?tokens=1", (("cookie", "a=b"),)), ALL)
    assert isinstance(verdict, PreviewRefusal)
    assert (verdict.status, verdict.guessed) == (403, None)


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        (f"/?Token={TOKEN}", ()),
        (f"/{TOKEN}", ()),
        (f"/?%74oken={TOKEN}", ()),
        ("/", (("authorization", f"Bearer {TOKEN}"),)),
        ("/", (("x-other", TOKEN),)),
        ("/", (("cookie", f"mine={TOKEN}"),)),
    ],
)
def test_a_token_in_another_place_goes_nowhere(target: str, headers: Headers) -> None:
    verdict = decide_preview(asked(target, (*BY_FIELD, *headers)), ALL)
    assert isinstance(verdict, PreviewRefusal)
    assert verdict.status == 400
    assert TOKEN not in verdict.text


def test_a_page_that_is_named_with_its_token_is_named_no_more() -> None:
    told = (("referer", f"{SHOWN.origin}/?token={TOKEN}"), ("accept", "a"))
    verdict = decide_preview(asked("/", (*WITH, *told)), ALL)
    assert verdict == PreviewForward(SHOWN, "/", (("host", SHOWN.host), ("accept", "a"), *PLAIN))
    own = ("referer", f"{SHOWN.origin}/page")
    verdict = decide_preview(asked("/", (*WITH, own)), ALL)
    assert verdict == PreviewForward(SHOWN, "/", (("host", SHOWN.host), own, *PLAIN))


_FIELDS = st.sampled_from(
    ["cookie", "referer", TOKEN_HEADER, "authorization", "x-a", "accept", "x-forwarded-proto"]
)
_VALUES = st.lists(
    st.sampled_from(
        [TOKEN, COOKIE_NAME, SECURE_COOKIE_NAME, "=", ";", " ", ",", "a", "token", "\t", "&", "?"]
    )
).map("".join)


@given(st.lists(st.tuples(_FIELDS, _VALUES), max_size=5), _VALUES, st.sampled_from(["GET", "POST"]))
def test_whatever_is_sent_no_token_reaches_the_sandbox(
    headers: list[tuple[str, str]], query: str, method: str
) -> None:
    head = asked(f"/?{query}", (*WITH, *headers), method=method)
    verdict = decide_preview(head, ALL)
    if isinstance(verdict, PreviewForward):
        assert TOKEN not in verdict.target
        assert not any(TOKEN in value for _, value in verdict.headers)
        assert not any(name == TOKEN_HEADER for name, _ in verdict.headers)


# TLS, and previews of one domain ------------------------------------------------------------------


def test_with_tls_the_cookie_belongs_to_this_host_alone() -> None:
    verdict = decide_preview(asked(f"/?token={TOKEN}", PAGE, host=SECURE.host), {SECURE.host: SECURE})
    assert isinstance(verdict, PreviewRedirect)
    assert verdict.location == "https://8000-one.previews.example.com/"
    assert verdict.cookie == f"__Host-{COOKIE_NAME}={TOKEN}; Path=/; Secure; HttpOnly; SameSite=Strict"
    back = decide_preview(
        asked("/", (("cookie", f"__Host-{COOKIE_NAME}={TOKEN}"),), host=SECURE.host), {SECURE.host: SECURE}
    )
    assert back == PreviewForward(SECURE, "/", (("host", SECURE.host), ("x-forwarded-proto", "https")))


@pytest.mark.parametrize(("host", "status"), [("", 0), (":443", 0), (":80", 421), (":", 421), (":8443", 421)])
def test_the_port_of_the_scheme_may_be_named(host: str, status: int) -> None:
    verdict = decide_preview(asked("/", BY_FIELD, host=SECURE.host + host), {SECURE.host: SECURE})
    assert (verdict.status if isinstance(verdict, PreviewRefusal) else 0) == status


def test_the_scheme_is_ours_to_say() -> None:
    verdict = decide_preview(asked("/", (*BY_FIELD, ("x-forwarded-proto", "https"))), ALL)
    assert verdict == PreviewForward(SHOWN, "/", (("host", SHOWN.host), *PLAIN))


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("a=1; Path=/; HttpOnly", "a=1; Path=/; HttpOnly"),
        ("a=1; Domain=previews.example.com; Path=/", "a=1; Path=/"),
        ("a=1;domain=.example.com", "a=1"),
        ("a=1; DOMAIN ;  Domain\t= x; Secure", "a=1; Secure"),
        ("domain=1; Path=/", "domain=1; Path=/"),
        (f"{COOKIE_NAME}=x", None),
        (f" {COOKIE_NAME} =x; Path=/", None),
        (f"{SECURE_COOKIE_NAME}=x; Secure; Path=/", None),
        ("", ""),
    ],
)
def test_a_cookie_of_the_sandbox_is_for_its_own_host(value: str, kept: str | None) -> None:
    expected = (("set-cookie", kept),) if kept is not None else ()
    assert with_own_cookies((("set-cookie", value), ("x", "domain=1;domain=2"))) == (
        *expected,
        ("x", "domain=1;domain=2"),
    )


@given(st.text(st.sampled_from("aD;=domain \t."), max_size=40))
def test_no_cookie_keeps_a_domain(value: str) -> None:
    for _, kept in with_own_cookies((("set-cookie", value),)):
        attributes = [part.partition("=")[0].strip(" \t").lower() for part in kept.split(";")[1:]]
        assert "domain" not in attributes
