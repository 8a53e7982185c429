"""The kinds of body, and a body that is at hand as a whole."""

from __future__ import annotations

import pytest

from egress.inspect.inspector import Facts, Unreadable
from egress.inspect.kinds import KINDS, inspect_whole, prepare_kinds
from egress.types import Head
from tests.unit.inspect.graphql.vectors import READ, envelope

HEAD = Head("POST", "https", "api.example.test", 443, "/graphql")


def test_a_kind_is_found_by_its_name() -> None:
    assert all(kind.name == name for name, kind in KINDS.items())
    prepare_kinds(KINDS)


@pytest.mark.parametrize(
    ("target", "body", "code"),
    [
        ("/graphql", envelope(READ), ""),
        ("/graphql", b"", "body.json"),
        ("/graphql?id=1", envelope(READ), "graphql.url_parameters"),
        ("/graphql", b" " * (256 * 1024 + 1), "body.too_large"),
    ],
)
def test_a_whole_body_is_read_as_one_piece(target: str, body: bytes, code: str) -> None:
    head = Head("POST", "https", "api.example.test", 443, target)
    found = inspect_whole(KINDS["graphql"], head, body)
    assert isinstance(found, Unreadable if code else Facts)
    assert getattr(found, "code", "") == code
