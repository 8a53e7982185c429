"""egress/credentials/cookie.py: one cookie, one value, one header."""

from __future__ import annotations

import pytest

from egress.credentials.cookie import write_cookie
from egress.credentials.result import CredentialRefusal, HeadEdit
from egress.types import Headers, InjectCookie

NEED = InjectCookie("session", "sid")


def write(*lines: str) -> tuple[str, bool]:
    """The one Cookie header that results, and whether the slot was taken."""
    headers = tuple(("cookie", line) for line in lines)
    edit = write_cookie("/", (("accept", "*/*"), *headers, ("x-a", "1")), NEED, b"tok3n")
    assert isinstance(edit, HeadEdit), edit
    *others, (name, line) = edit.headers
    assert others == [("accept", "*/*"), ("x-a", "1")]
    assert (edit.target, name) == ("/", "cookie")
    return line, edit.occupied


def test_writes_a_cookie_where_there_was_none() -> None:
    assert write() == ("sid=tok3n", False)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (["a=1; b=2"], "a=1; b=2; sid=tok3n"),
        (["a=1", "b=2;c=3"], "a=1; b=2; c=3; sid=tok3n"),
        (["xsid=2; sidx=3; sid%41=4"], "xsid=2; sidx=3; sid%41=4; sid=tok3n"),
        (['a="x, y"; b; =c; d=='], 'a="x, y"; b; =c; d==; sid=tok3n'),
        (["a=%7e{}\xe9"], "a=%7e{}\xe9; sid=tok3n"),
        (["", ";", " ; "], "sid=tok3n"),
    ],
)
def test_merges_the_others_as_sent(lines: list[str], after: str) -> None:
    assert write(*lines) == (after, False)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (["sid=mine"], "sid=tok3n"),
        (["sid"], "sid=tok3n"),
        (["SID=1; a=2; Sid=3"], "a=2; sid=tok3n"),
        (["sid="], "sid=tok3n"),
        (["a=1;sid=mine;b=2"], "a=1; b=2; sid=tok3n"),
        (["\tsid = mine ; a=1"], "a=1; sid=tok3n"),
        (["sid=mine", "a=1; sid=x=y", "sid=z"], "a=1; sid=tok3n"),
        (['a="x; sid=mine"'], 'a="x; sid=tok3n'),
    ],
)
def test_strips_every_occurrence_in_every_header(lines: list[str], after: str) -> None:
    assert write(*lines) == (after, True)


def test_ours_stands_last() -> None:
    """Behind an unclosed quote of the sandbox there is then nothing of the sandbox that could win."""
    line, _ = write('a="unclosed; b=1')
    assert line.endswith("; sid=tok3n")


@pytest.mark.parametrize("line", ["a=1,sid=mine", "a=1, sid=mine", "a=1,sid =mine,b=2"])
def test_refuses_a_second_value_behind_a_comma(line: str) -> None:
    refusal = write_cookie("/", (("cookie", line),), NEED, b"hunter2")
    assert isinstance(refusal, CredentialRefusal)
    assert (refusal.code, str(refusal.slot)) == ("request.malformed", "cookie:sid")


@pytest.mark.parametrize("line", ["a=1,2", "a=x,sid", "a=sid,b=2"])
def test_a_comma_elsewhere_is_data(line: str) -> None:
    assert write(line) == (f"{line}; sid=tok3n", False)


@pytest.mark.parametrize(
    "value", [b"hunter 2", b'"hunter"', b"hunter,2", b"hunter;2", b"hunter\\2", b"h\xc3\xa9", b"h\n"]
)
def test_refuses_a_value_that_a_cookie_cannot_carry(value: bytes) -> None:
    headers: Headers = (("cookie", "a=1"),)
    refusal = write_cookie("/", headers, NEED, value)
    assert isinstance(refusal, CredentialRefusal)
    assert (refusal.code, refusal.secret, str(refusal.slot)) == (
        "secret.unavailable",
        "session",
        "cookie:sid",
    )
    assert "hunter" not in repr(refusal)
