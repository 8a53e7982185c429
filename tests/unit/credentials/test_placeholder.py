"""egress/credentials/placeholder.py: stand-ins with the form of the real thing."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from typing import cast, get_args

import pytest

from egress.credentials.placeholder import github_checksum, make_placeholder
from egress.errors import UsageError
from egress.types import Shape
from tests.unit.credentials.credential_samples import KEY, NEIGHBOUR_KEY

SHAPES: tuple[Shape, ...] = get_args(Shape)
FORMS = {
    "github": r"ghp_[0-9A-Za-z]{36}",
    "openai": r"sk-proj-[A-Za-z0-9_-]{74}T3BlbkFJ[A-Za-z0-9_-]{74}",
    "anthropic": r"sk-ant-api03-[A-Za-z0-9_-]{93}AA",
    "aws": r"AKIA[A-Z2-7]{16}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "hex32": r"[0-9a-f]{32}",
}
# What the alphabets share: nothing that a URL, a header or a cookie would have to encode.
UNRESERVED = re.compile(r"[A-Za-z0-9_-]+")


@pytest.mark.parametrize("like", SHAPES)
def test_has_the_form_of_the_real_thing(like: Shape) -> None:
    for name in ("a", "b", "c", "ä", ""):
        value = make_placeholder(like, KEY, name)
        assert re.fullmatch(FORMS[like], value)
        assert UNRESERVED.fullmatch(value)


def test_the_github_checksum_is_githubs() -> None:
    """The pair is a long revoked token that is public as an example of the format."""
    assert github_checksum("zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ") == "0mLq17"


def test_a_github_stand_in_carries_its_checksum() -> None:
    for name in map(str, range(50)):
        value = make_placeholder("github", KEY, name)
        assert value[-6:] == github_checksum(value[4:-6])


def test_a_uuid_is_a_random_one() -> None:
    parsed = uuid.UUID(make_placeholder("uuid", KEY, "tenant"))
    assert (parsed.version, parsed.variant) == (4, uuid.RFC_4122)


@pytest.mark.parametrize("like", SHAPES)
def test_is_the_same_for_the_same_sandbox_and_secret(like: Shape) -> None:
    assert make_placeholder(like, KEY, "github") == make_placeholder(like, bytes(KEY), "github")


def test_the_values_do_not_change_between_versions() -> None:
    """A sandbox keeps its stand-ins over an update of Egress; a change here breaks running ones."""
    assert make_placeholder("hex32", KEY, "github") == "a743de0c2a605244bf1e0ecd3da1a2ed"
    assert make_placeholder("aws", KEY, "github") == "AKIANU7XDWI4YF6MFHW3"


@pytest.mark.parametrize("like", SHAPES)
def test_differs_between_sandboxes_and_between_secrets(like: Shape) -> None:
    values = {
        make_placeholder(like, key, name)
        for key in (KEY, NEIGHBOUR_KEY)
        for name in ("a", "b", "a\0", "ab", "")
    }
    assert len(values) == 10


def test_shapes_share_no_text() -> None:
    """A stand-in of one shape says nothing about that of another shape for the same secret."""
    values = {like: make_placeholder(like, KEY, "github") for like in SHAPES}
    middles = [value[14:20].lower() for value in values.values()]
    assert all(sum(middle in value.lower() for value in values.values()) == 1 for middle in middles)


def test_characters_are_drawn_evenly() -> None:
    drawn = Counter("".join(make_placeholder("github", KEY, str(n))[4:34] for n in range(2000)))
    assert len(drawn) == 62
    # 968 of each on average; a remainder without rejection would give the first eight 1172.
    assert max(drawn.values()) < 1110
    assert min(drawn.values()) > 830


@pytest.mark.parametrize("key", [b"", b"short", bytes(31)])
def test_refuses_a_key_that_could_be_guessed(key: bytes) -> None:
    with pytest.raises(UsageError, match="32 random bytes"):
        make_placeholder("github", key, "github")


def test_refuses_a_shape_it_does_not_know() -> None:
    with pytest.raises(UsageError, match="'gitlab'") as caught:
        make_placeholder(cast("Shape", "gitlab"), KEY, "gitlab")
    assert "hex32" in caught.value.hint
