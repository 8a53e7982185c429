"""A response head and its trailers: what is taken off, what is held back, what is masked."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import replace

import pytest

from egress.exchange import AnswerHead, CutExchange, Destination, Response
from egress.exchange.content_coding import ContentCoding
from egress.exchange.response import (
    DIGEST_FIELDS,
    cleaned_answer,
    cleaned_trailers,
    needs_search,
    scrub_fields,
)
from egress.scrub import Needles
from egress.types import Cookies, Effects, Headers, Redirects, Scrub
from tests.unit.exchange.sample import NEEDLES, TOKEN

HOST = Destination("https", "api.example.com", 443)
MASKED = "*" * len(TOKEN)
INJECTED = Effects(cookies=Cookies.DROP)
BLOCK = replace(INJECTED, scrub=Scrub.BLOCK)
OFF = replace(INJECTED, scrub=Scrub.OFF)


def of(
    *headers: tuple[str, str],
    status: int = 200,
    reason: str = "OK",
    has_body: bool = True,
    effects: Effects = INJECTED,
    most: int | None = None,
    found: Counter[str] | None = None,
) -> AnswerHead | str:
    answer = cleaned_answer(
        Response(status, reason, headers, has_body),
        HOST,
        effects,
        NEEDLES,
        Counter() if found is None else found,
        injected=True,
        max_bytes=most,
    )
    return answer.code if isinstance(answer, CutExchange) else answer


def headers_of(*headers: tuple[str, str], effects: Effects = INJECTED) -> Headers:
    answer = of(*headers, effects=effects)
    assert isinstance(answer, AnswerHead), answer
    return answer.headers


PLAIN = ("content-type", "text/plain")


def test_an_ordinary_head_passes_as_it_is() -> None:
    headers = (PLAIN, ("content-length", "5"), ("etag", 'W/"1"'), ("link", "</a>; rel=next"), ("vary", ""))
    assert of(*headers, status=207, reason="Multi-Status") == AnswerHead(207, "Multi-Status", headers)


# Taken off ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["egress-verdict", "egress-", "egress-code"])
def test_fields_in_our_own_name_are_ours_alone(name: str) -> None:
    assert headers_of((name, "allow"), PLAIN) == (PLAIN,)
    assert headers_of((name, "allow"), PLAIN, effects=OFF) == (PLAIN,)


def test_a_name_that_only_begins_alike_passes() -> None:
    assert headers_of(("egressive", "1")) == (("egressive", "1"),)


@pytest.mark.parametrize("name", ["set-cookie", "set-cookie2"])
def test_cookies_are_dropped_or_passed_as_the_rules_say(name: str) -> None:
    fields = (PLAIN, (name, "sid=1"), (name, "sid=2"))
    assert headers_of(*fields) == (PLAIN,)
    assert headers_of(*fields, effects=Effects()) == fields


def test_fields_of_the_connection_stay_behind() -> None:
    fields = [
        ("connection", "close, x-a"),
        ("x-a", "1"),
        ("keep-alive", "x"),
        ("upgrade", "h2c"),
        ("proxy-b", "1"),
    ]
    assert headers_of(*fields, ("transfer-encoding", "chunked"), PLAIN) == (PLAIN,)


# Malformed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field",
    [("Set-Cookie", "a=1"), ("x-a", "1\r\nset-cookie: a"), ("connection", "content-length"), ("connection",
     "a b"),
     ("content-length", "\xb2"), ("content-length", "9" * 5000), ("", "x"), ("x-a", "\u0100")],
)  # fmt: skip
def test_a_malformed_head_is_cut(field: tuple[str, str]) -> None:
    assert of(PLAIN, field) == "upstream.malformed"


@pytest.mark.parametrize("reason", ["OK\r\nx: y", "OK\n", "\x00", "\u0100"])
def test_a_malformed_reason_is_cut(reason: str) -> None:
    assert of(reason=reason) == "upstream.malformed"


def test_a_repeated_length_is_cut() -> None:
    assert of(("content-length", "1"), ("content-length", "2")) == "upstream.malformed"


# Bounds ---------------------------------------------------------------------------------------


def test_a_body_that_says_it_is_too_long_is_cut() -> None:
    assert of(("content-length", "11"), most=10) == "limit.response_body"
    assert isinstance(of(("content-length", "10"), most=10), AnswerHead)
    assert isinstance(of(("content-length", "11")), AnswerHead)


def test_a_length_without_a_body_says_nothing() -> None:
    """HEAD tells the length of what a GET would get."""
    assert isinstance(of(("content-length", "11"), most=10, has_body=False), AnswerHead)


# Coded ----------------------------------------------------------------------------------------

GZIP = ("content-encoding", "gzip")


@pytest.mark.parametrize("status", [200, 203, 404, 503])
def test_a_coded_body_is_decoded_where_it_would_be_searched(status: int) -> None:
    answer = of(GZIP, PLAIN, status=status)
    assert answer == AnswerHead(status, "OK", (PLAIN,), ContentCoding.GZIP)


def test_the_head_of_a_decoded_body_says_nothing_of_the_coded_one() -> None:
    gone = [(name, "1") for name in ("content-md5", "digest", "content-digest", "repr-digest")]
    gone += [("accept-ranges", "bytes"), ("content-length", "99"), GZIP]
    kept = (("vary", "Accept-Encoding"), ("last-modified", "x"), ("trailer", "x-sum"), PLAIN)
    assert headers_of(*kept, *gone) == kept
    assert headers_of(*kept, *gone[:-1]) == (*kept, *gone[:-1])


@pytest.mark.parametrize(
    ("etag", "shown"), [('"1"', 'W/"1"'), ('W/"1"', 'W/"1"'), ('""', 'W/""'), ('"W/"', 'W/"W/"')]
)
def test_a_decoded_body_has_a_weak_etag(etag: str, shown: str) -> None:
    assert headers_of(GZIP, ("etag", etag)) == (("etag", shown),)
    assert headers_of(("etag", etag)) == (("etag", etag),)


def test_what_is_not_one_whole_known_coding_is_withheld() -> None:
    assert of(("content-encoding", "gzip, br")) == "response.withheld"
    assert of(("content-encoding", "compress")) == "response.withheld"
    assert of(("grpc-encoding", "gzip")) == "response.withheld"
    assert of(GZIP, ("grpc-encoding", "gzip")) == "response.withheld"
    assert of(GZIP, ("content-type", "text/plain; charset=utf-16")) == "response.withheld"


def test_a_part_of_a_coded_body_is_withheld() -> None:
    assert of(GZIP, status=206) == "response.withheld"
    assert of(GZIP, ("content-range", "bytes 0-9/99"), status=206) == "response.withheld"
    assert of(GZIP, ("content-range", "bytes 0-9/99")) == "response.withheld"
    assert isinstance(of(("content-range", "bytes 0-9/99"), status=206), AnswerHead)


def test_a_coded_body_passes_where_nothing_is_searched() -> None:
    fields = (GZIP, ("content-length", "9"), ("etag", '"1"'))
    assert of(*fields, effects=OFF) == AnswerHead(200, "OK", fields)
    answer = cleaned_answer(Response(200, "OK", fields), HOST, INJECTED, None, Counter(), injected=False)
    assert answer == AnswerHead(200, "OK", fields)


@pytest.mark.parametrize("status", [200, 304])
def test_what_has_no_body_says_what_the_decoded_one_would(status: int) -> None:
    """The answer to HEAD is that to GET, without the body."""
    answer = of(GZIP, ("content-length", "9"), ("etag", '"1"'), PLAIN, status=status, has_body=False)
    assert answer == AnswerHead(status, "OK", (("etag", 'W/"1"'), PLAIN))


def test_an_empty_body_keeps_its_length() -> None:
    answer = of(GZIP, ("content-length", "0"), has_body=False)
    assert answer == AnswerHead(200, "OK", (("content-length", "0"),))


def test_what_has_no_body_may_name_any_coding() -> None:
    for fields in [(("content-encoding", "gzip, br"),), (("content-encoding", "x"), ("etag", '"1"'))]:
        assert of(*fields, has_body=False) == AnswerHead(200, "OK", fields)
    assert of(GZIP, status=206, has_body=False) == AnswerHead(206, "OK", (GZIP,))


def test_nominating_the_coding_does_not_hide_it() -> None:
    """Connection takes the field off, and the body stays as it is."""
    assert of(("connection", "content-encoding"), GZIP) == "response.withheld"


def test_the_length_of_a_coded_body_is_held_to_the_limit_too() -> None:
    assert of(GZIP, ("content-length", "11"), most=10) == "limit.response_body"
    assert isinstance(of(GZIP, ("content-length", "10"), most=10), AnswerHead)


def test_frames_must_not_be_compressed() -> None:
    extension = ("sec-websocket-extensions", "permessage-deflate")
    assert of(extension, status=101, has_body=False) == "response.withheld"
    assert of(GZIP, status=101, has_body=False) == "response.withheld"
    assert isinstance(of(extension, status=101, has_body=False, effects=OFF), AnswerHead)


# Redirects ------------------------------------------------------------------------------------


def test_a_redirect_is_held_to_the_rules() -> None:
    away = ("location", "https://evil.example/")
    assert of(away, status=302, effects=replace(INJECTED, redirects=Redirects.DENY)) == "redirect.refused"
    assert (
        of(away, status=302, effects=replace(INJECTED, redirects=Redirects.SAME_HOST)) == "redirect.refused"
    )
    assert of(away, status=302) == AnswerHead(302, "OK", (away,))


def test_a_nominated_location_is_not_passed_on_so_it_is_no_redirect() -> None:
    answer = of(
        ("connection", "location"),
        ("location", "//evil.example"),
        status=302,
        effects=replace(INJECTED, redirects=Redirects.DENY),
    )
    assert answer == AnswerHead(302, "OK", ())


# Secrets --------------------------------------------------------------------------------------


def test_a_secret_is_masked_in_value_name_and_reason() -> None:
    found: Counter[str] = Counter()
    answer = of(
        ("x-echo", f"Bearer {TOKEN}"), (f"x-{TOKEN.lower()}", "1"), PLAIN, reason=f"No {TOKEN}", found=found
    )
    assert answer == AnswerHead(
        200, f"No {MASKED}", (("x-echo", f"Bearer {MASKED}"), (f"x-{MASKED}", "1"), PLAIN)
    )
    assert found == {"github": 3}


def test_a_secret_in_another_spelling_is_masked() -> None:
    basic = base64.b64encode(f"x:{TOKEN}".encode()).decode()
    percent = "".join(f"%{byte:02X}" for byte in TOKEN.encode())
    headers = headers_of(("x-echo", f"Basic {basic}"), ("location", f"/?t={percent}"))
    assert TOKEN not in str(headers)
    assert basic[8:24] not in str(headers)
    assert percent[:24] not in str(headers)


def test_block_cuts_a_head_with_a_secret() -> None:
    assert of(("x-echo", TOKEN), effects=BLOCK) == "response.withheld"
    assert of(reason=TOKEN, effects=BLOCK) == "response.withheld"
    assert isinstance(of(PLAIN, effects=BLOCK), AnswerHead)


def test_a_secret_in_a_field_that_is_taken_off_is_no_reason_to_block() -> None:
    assert isinstance(of(("set-cookie", TOKEN), PLAIN, effects=BLOCK), AnswerHead)


def test_off_passes_a_secret() -> None:
    assert headers_of(("x-echo", TOKEN), effects=OFF) == (("x-echo", TOKEN),)


def test_there_is_a_search_only_where_a_secret_can_come_back_and_with_leave_to_look() -> None:
    """Whether its value is known yet makes no difference."""
    assert needs_search(INJECTED, NEEDLES)
    assert needs_search(BLOCK, NEEDLES)
    assert not needs_search(OFF, NEEDLES)
    assert needs_search(INJECTED, Needles({}))
    assert not needs_search(OFF, Needles({}))
    assert not needs_search(INJECTED, None)


def test_a_coded_body_is_decoded_before_any_value_is_known() -> None:
    answer = cleaned_answer(
        Response(200, "OK", (GZIP,)), HOST, INJECTED, Needles({}), Counter(), injected=False
    )
    assert answer == AnswerHead(200, "OK", (), ContentCoding.GZIP)


def test_two_fields_are_not_read_as_one() -> None:
    """What stands in two fields is in pieces, a stated limit; neighbours must not be masked for it."""
    half = len(TOKEN) // 2
    fields = ((f"x-{TOKEN[:half].lower()}", TOKEN[half:]), ("x-b", TOKEN[half:]))
    assert scrub_fields("", fields, INJECTED, NEEDLES, Counter()) == ("", fields)


# Trailers -------------------------------------------------------------------------------------


def trailers(*fields: tuple[str, str], effects: Effects = INJECTED) -> Headers | str:
    kept = cleaned_trailers(fields, effects, NEEDLES, Counter())
    return kept.code if isinstance(kept, CutExchange) else kept


def test_trailers_pass_and_are_masked() -> None:
    assert trailers() == ()
    assert trailers(("grpc-status", "0"), ("x-sum", "1")) == (("grpc-status", "0"), ("x-sum", "1"))
    assert trailers(("grpc-message", f"bad {TOKEN}")) == (("grpc-message", f"bad {MASKED}"),)


@pytest.mark.parametrize(
    "name",
    ["set-cookie", "location", "content-encoding", "content-length", "transfer-encoding", "connection",
     "egress-a",
     "proxy-authenticate", "host", "trailer", "authorization"],
)  # fmt: skip
def test_a_trailer_that_acts_like_a_field_of_the_head_is_dropped(name: str) -> None:
    assert trailers((name, "1"), ("grpc-status", "0")) == (("grpc-status", "0"),)


def test_trailers_of_a_decoded_body_have_no_digest_of_the_coded_one() -> None:
    fields = (("content-digest", "x"), ("x-sum", "1"))
    assert trailers(*fields) == fields
    assert cleaned_trailers(fields, INJECTED, NEEDLES, Counter(), DIGEST_FIELDS) == (("x-sum", "1"),)


def test_malformed_trailers_are_cut() -> None:
    assert trailers(("x-a", "1\r\nx: y")) == "upstream.malformed"
    assert trailers(("X-A", "1")) == "upstream.malformed"


def test_block_cuts_trailers_with_a_secret() -> None:
    assert trailers(("x-a", TOKEN), effects=BLOCK) == "response.withheld"
    assert trailers(("x-a", "1"), effects=BLOCK) == (("x-a", "1"),)
    assert trailers(("x-a", TOKEN), effects=OFF) == (("x-a", TOKEN),)
