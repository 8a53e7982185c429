"""Ids of connections and requests."""

from __future__ import annotations

import re

from egress.proxy.lanes.engine import IdGenerator


def test_no_id_comes_again() -> None:
    new, other = IdGenerator(), IdGenerator()
    made = [new() for _ in range(2000)] + [other() for _ in range(2000)]
    assert len(set(made)) == 4000


def test_an_id_is_twelve_characters_that_need_no_quotes() -> None:
    new = IdGenerator()
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{12}", new()) for _ in range(600))
