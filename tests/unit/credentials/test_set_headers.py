"""Constant headers of an entry, in the head that goes up."""

from __future__ import annotations

import pytest

from egress.credentials.set_headers import with_set_headers
from egress.types import Head, Headers


@pytest.mark.parametrize("sent", [(), (("x-a", "z"),), (("x_a", "z"), ("x-a", "y"))])
def test_the_constant_takes_the_place_of_every_spelling(sent: Headers) -> None:
    head = Head("GET", "https", "a.example", 443, "/", (("accept", "*/*"), *sent))
    assert with_set_headers(head, (("x-a", "b"),)).headers == (("accept", "*/*"), ("x-a", "b"))
    assert with_set_headers(head, ()) is head
