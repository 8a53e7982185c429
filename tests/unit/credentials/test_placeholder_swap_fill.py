"""egress/credentials/placeholder_swap.py: secrets in the place of marks."""

from __future__ import annotations

import base64
import pickle

import pytest

from egress.credentials.placeholder_swap import HeadDraft, Substitution, substitute
from egress.credentials.result import CredentialRefusal, HeadEdit

A, B = "\u0100", "\u0101"


def fill(draft: HeadDraft, a: bytes = b"tok3n", b: bytes = b"other") -> HeadEdit:
    edit = substitute(draft, {A: Substitution("a", a), B: Substitution("b", b)})
    assert isinstance(edit, HeadEdit), edit
    return edit


def refusal(draft: HeadDraft, a: bytes) -> CredentialRefusal:
    outcome = substitute(draft, {B: Substitution("b", b"other"), A: Substitution("a", a)})
    assert isinstance(outcome, CredentialRefusal)
    assert (outcome.code, outcome.secret) == ("secret.unavailable", "a")
    assert a.decode("latin-1") not in repr(outcome)
    return outcome


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (b"tok3n", "tok3n"),
        (b"a/b?c#d%2e", "a%2Fb%3Fc%23d%252e"),
        (b"a&b=c+d e;f", "a%26b%3Dc%2Bd%20e%3Bf"),
        (b"\\..\\", "%5C..%5C"),
        (b"\xc3\xa9\xff", "%C3%A9%FF"),
        (b"~-._", "~-._"),
    ],
)
def test_a_value_stays_inside_its_segment_and_its_parameter(value: bytes, written: str) -> None:
    edit = fill(HeadDraft(f"/x{A}/y", f"k={A}&l=1", []), value)
    assert edit.target == f"/x{written}/y?k={written}&l=1"


@pytest.mark.parametrize(
    ("path", "value"),
    [(f"/{A}", b"."), (f"/{A}/x", b".."), (f"/a/.{A}", b"."), (f"/%2e{A}/", b"."), (f"/{A}{A}", b".")],
)
def test_refuses_a_value_that_makes_a_dot_segment(path: str, value: bytes) -> None:
    outcome = substitute(HeadDraft(path, None, []), {A: Substitution("a", value)})
    assert isinstance(outcome, CredentialRefusal)
    assert (outcome.code, outcome.secret, str(outcome.slot)) == ("secret.unavailable", "a", "path")


def test_dots_within_a_longer_segment_are_harmless() -> None:
    assert fill(HeadDraft(f"/v{A}", None, []), b"..").target == "/v.."
    assert fill(HeadDraft("/", f"k={A}", []), b"..").target == "/?k=.."


def test_fills_headers_as_they_are() -> None:
    edit = fill(HeadDraft("/", None, [("x", f"Bearer {A}, {B} {A}"), ("y", "\xe9 1")]), b'quo"ted, text')
    assert edit.headers == (("x", 'Bearer quo"ted, text, other quo"ted, text'), ("y", "\xe9 1"))


@pytest.mark.parametrize("value", [b"hun\nter", b"hunt\xc3\xa9r", b"hunter ", b"hun\x00ter", b"hun\tter"])
def test_refuses_what_a_header_cannot_carry(value: bytes) -> None:
    assert str(refusal(HeadDraft("/", None, [("x", f"{B}{A}")]), value).slot) == "header:x"


@pytest.mark.parametrize("value", [b"hunter;2", b"hunter,2", b'hunter"', b"hunter 2", b"hunter\\"])
def test_refuses_what_a_cookie_cannot_carry(value: bytes) -> None:
    assert str(refusal(HeadDraft("/", None, [("cookie", f"a={A}")]), value).slot) == "cookie"


def test_a_value_without_a_mark_in_the_head_is_not_judged() -> None:
    assert fill(HeadDraft("/", None, [("x", B)]), b"\n").headers == (("x", "other"),)


@pytest.mark.parametrize(
    ("pair", "value", "after"),
    [
        (f"git:{A}", b"a:b", b"git:a:b"),
        (f"{A}:x-oauth-basic", b"tok3n", b"tok3n:x-oauth-basic"),
        (f"\xff{B}:{A}", b"\xc3\xa9", b"\xffother:\xc3\xa9"),
    ],
)
def test_rewrites_basic_credentials(pair: str, value: bytes, after: bytes) -> None:
    sent = f"basic {base64.b64encode(b'git:placeholder').decode()}"
    edit = fill(HeadDraft("/", None, [("authorization", sent)], {0: pair}), value)
    assert edit.headers == (("authorization", f"basic {base64.b64encode(after).decode()}"),)


def test_refuses_a_colon_in_the_user_of_basic_credentials() -> None:
    draft = HeadDraft("/", None, [("authorization", "Basic YTpi")], {0: f"{A}:x"})
    assert str(refusal(draft, b"hunter:2").slot) == "basic"


def test_a_fill_does_not_show_its_value() -> None:
    shy = Substitution("a", b"hunter2")
    assert "hunter2" not in f"{shy} {shy!r}"
    with pytest.raises(TypeError, match="must not be pickled"):
        pickle.dumps(shy)
