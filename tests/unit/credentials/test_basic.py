"""egress/credentials/basic.py: Basic credentials, written, read and rewritten."""

from __future__ import annotations

import base64

import pytest

from egress.credentials.basic import read_basic, rewrite_basic, write_basic
from egress.credentials.result import CredentialRefusal, HeadEdit
from egress.types import Headers, InjectBasic

NEED = InjectBasic("registry", "robot")


def write(headers: Headers, need: InjectBasic = NEED, value: bytes = b"tok3n") -> HeadEdit:
    edit = write_basic("/", headers, need, value)
    assert isinstance(edit, HeadEdit), edit
    return edit


def coded(pair: bytes) -> str:
    return base64.b64encode(pair).decode()


def test_writes_user_and_secret() -> None:
    assert write(()).headers == (("authorization", "Basic cm9ib3Q6dG9rM24="),)


@pytest.mark.parametrize(
    ("user", "value", "pair"),
    [
        ("", b"tok3n", b":tok3n"),
        ("robot", b"a:b:c", b"robot:a:b:c"),
        ("jürgen", "pässwörd".encode(), "jürgen:pässwörd".encode()),
        ("robot", b"x" * 999, b"robot:" + b"x" * 999),
    ],
)
def test_any_text_fits_in(user: str, value: bytes, pair: bytes) -> None:
    ((_, line),) = write((), InjectBasic("registry", user), value).headers
    assert base64.b64decode(line.removeprefix("Basic ")) == pair


def test_strips_every_authorization_and_nothing_else() -> None:
    edit = write((("authorization", "Bearer a"), ("accept", "*/*"), ("authorization", "Basic b")))
    assert [name for name, _ in edit.headers] == ["accept", "authorization"]
    assert edit.occupied
    assert not write((("accept", "*/*"),)).occupied


@pytest.mark.parametrize("user", ["a:b", "a\nb", "\x00"])
def test_refuses_a_user_that_would_shift_the_password(user: str) -> None:
    refusal = write_basic("/", (), InjectBasic("registry", user), b"tok3n")
    assert isinstance(refusal, CredentialRefusal)
    assert refusal.code == "internal"


def test_refuses_a_value_with_a_control_character() -> None:
    refusal = write_basic("/", (), NEED, b"hunter2\n")
    assert isinstance(refusal, CredentialRefusal)
    assert (refusal.code, refusal.secret) == ("secret.unavailable", "registry")
    assert "hunter2" not in repr(refusal)


@pytest.mark.parametrize("scheme", ["Basic ", "basic ", "BASIC   "])
@pytest.mark.parametrize("pair", [b"user:pass", b":", b"a:", b":b", b"a:b:c", b"\xff:\x80"])
def test_reads_what_clients_send(scheme: str, pair: bytes) -> None:
    assert read_basic(scheme + coded(pair)) == pair.decode("latin-1")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Basic",
        "Basic ",
        "Bearer YTpi",
        "Basic YTpi YTpi",
        "Basic YTpi\n",
        "Basic  =",
        "Basic YTp",  # a length that base64 does not have
        "Basic YTo",  # no padding
        "Basic YTo===",
        "Basic YTpi=",
        "Basic YTp=YTpi",
        "Basic YT-i",
        "Basic " + coded(b"no colon"),
    ],
)
def test_reads_nothing_that_servers_could_read_in_two_ways(line: str) -> None:
    assert read_basic(line) is None


def test_rewrites_the_pair_and_keeps_the_spelling_of_the_scheme() -> None:
    assert rewrite_basic("BASIC  " + coded(b"a:b") + " ", b"a:\xffc") == "BASIC  " + coded(b"a:\xffc")
