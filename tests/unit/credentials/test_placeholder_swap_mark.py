"""egress/credentials/placeholder_swap.py: which occurrence stands in which slot."""

from __future__ import annotations

import base64

import pytest

from egress.credentials.placeholder_swap import HeadDraft, join_target, mark_slot
from egress.types import Head
from tests.unit.credentials.credential_samples import STAND_IN, request, slot

MARK = "\u0100"
P = STAND_IN


def marked(head: Head, written: str) -> tuple[HeadDraft, int]:
    draft = HeadDraft.of(head)
    return draft, mark_slot(draft, slot(written), P, MARK)


def basic(pair: str, scheme: str = "Basic") -> tuple[str, str]:
    return "authorization", f"{scheme} {base64.b64encode(pair.encode()).decode()}"


@pytest.mark.parametrize(
    ("line", "after", "count"),
    [
        (P, MARK, 1),
        (f"Bearer {P}", f"Bearer {MARK}", 1),
        (f'a="{P}", b={P}', f'a="{MARK}", b={MARK}', 2),
        (P.lower(), P.lower(), 0),
        ("", "", 0),
    ],
)
def test_marks_inside_a_header(line: str, after: str, count: int) -> None:
    draft, found = marked(request("/", ("x-key", line), ("x-key-2", P)), "header:x-key")
    assert draft.headers[1:] == [("x-key", after), ("x-key-2", P)]
    assert found == count


def test_marks_every_header_of_the_name() -> None:
    draft, found = marked(request("/", ("x", P), ("y", P), ("x", P)), "header:x")
    assert [line for _, line in draft.headers[1:]] == [MARK, P, MARK]
    assert found == 2


@pytest.mark.parametrize(
    ("query", "after", "count"),
    [
        (f"key={P}", f"key={MARK}", 1),
        (f"a=1&key=x{P}&key", f"a=1&key=x{MARK}&key", 1),
        (f"%6bey={P}", f"%6bey={MARK}", 1),
        (f"key={P}&key={P}", f"key={MARK}&key={MARK}", 2),
        (f"key=a={P}", f"key=a={MARK}", 1),
        (f"other={P}", f"other={P}", 0),
        (f"{P}=key", f"{P}=key", 0),
        (f"KEY={P}", f"KEY={P}", 0),
        (f"a=1;key={P}", f"a=1;key={P}", 0),
        (f"key=1;other={P}", f"key=1;other={P}", 0),
        (f"key={P}#", f"key={P}#", 0),
        ("key=%67hp_", "key=%67hp_", 0),
    ],
)
def test_marks_the_value_of_a_query_parameter(query: str, after: str, count: int) -> None:
    draft, found = marked(request(f"/{P}?{query}"), "query:key")
    assert draft.target() == f"/{P}?{after}"
    assert found == count


@pytest.mark.parametrize(
    ("line", "after", "count"),
    [
        (f"sid={P}", f"sid={MARK}", 1),
        (f"a=1;  sid = {P} ;b=2", f"a=1;  sid = {MARK} ;b=2", 1),
        (f'sid="{P}"', f'sid="{MARK}"', 1),
        (f"SID={P}; {P}=sid; {P}", f"SID={P}; {P}=sid; {P}", 0),
        (f"sid=1, other={P}", f"sid=1, other={P}", 0),
        (f"sid={P}; sid={P}", f"sid={MARK}; sid={MARK}", 2),
    ],
)
def test_marks_the_value_of_a_cookie(line: str, after: str, count: int) -> None:
    draft, found = marked(request("/", ("cookie", line), ("x", f"sid={P}")), "cookie:sid")
    assert draft.headers[1:] == [("cookie", after), ("x", f"sid={P}")]
    assert found == count


@pytest.mark.parametrize(
    ("target", "after", "count"),
    [
        (f"/bot{P}/send?key={P}", f"/bot{MARK}/send?key={P}", 1),
        (f"/{P}/{P}", f"/{MARK}/{MARK}", 2),
        (f"/a#{P}", f"/a#{P}", 0),
        (f"https://{P}/", f"https://{P}/", 0),
        ("*", "*", 0),
    ],
)
def test_marks_inside_the_path(target: str, after: str, count: int) -> None:
    draft, found = marked(request(target), "path")
    assert draft.target() == after
    assert found == count


@pytest.mark.parametrize(
    ("pair", "after", "count"),
    [
        (f"git:{P}", f"git:{MARK}", 1),
        (f"{P}:x-oauth-basic", f"{MARK}:x-oauth-basic", 1),
        (f"{P}:", f"{MARK}:", 1),
        (f"{P}:{P}", f"{MARK}:{MARK}", 2),
    ],
)
def test_marks_user_or_password_of_basic_credentials(pair: str, after: str, count: int) -> None:
    draft, found = marked(request("/", basic(pair)), "basic")
    assert draft.pairs == {1: after}
    assert found == count
    assert draft.decoded_headers()[1] == ("authorization", after)
    assert draft.headers[1] == basic(pair), "the line itself is rewritten when it is filled"


@pytest.mark.parametrize(
    "header",
    [
        basic(P),
        basic(f"git:{P}", scheme="Bearer"),
        ("authorization", f"Basic {P}"),
        ("proxy-authorization", basic(f"git:{P}")[1]),
        ("authorization", basic(f"git:{P}")[1].rstrip("=") + "*"),
    ],
)
def test_nothing_else_is_basic_credentials(header: tuple[str, str]) -> None:
    draft, found = marked(request("/", header), "basic")
    assert (draft.pairs, found) == ({}, 0)


def test_two_secrets_may_share_basic_credentials() -> None:
    draft = HeadDraft.of(request("/", basic(f"{P}:other")))
    assert mark_slot(draft, slot("basic"), P, MARK) == 1
    assert mark_slot(draft, slot("basic"), "other", "\u0101") == 1
    assert draft.pairs == {1: f"{MARK}:\u0101"}


@pytest.mark.parametrize("target", ["/", "/?", "/a?b", "*", "", "/a?b?c"])
def test_a_draft_puts_together_what_it_took_apart(target: str) -> None:
    head = request(target, ("a", "1"), ("a", "2"))
    draft = HeadDraft.of(head)
    assert draft.target() == target == join_target(draft.path, draft.query)
    assert draft.decoded_headers() == head.headers


def test_marking_a_copy_leaves_the_draft_alone() -> None:
    draft = HeadDraft.of(request(f"/{P}?key={P}", ("x", P), basic(f"git:{P}")))
    before = (draft.target(), draft.decoded_headers())
    trial = draft.copy()
    for written in ("path", "query:key", "header:x", "basic"):
        assert mark_slot(trial, slot(written), P, MARK) == 1
    assert (draft.target(), draft.decoded_headers()) == before
