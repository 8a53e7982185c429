"""Addresses that servers read as they stand."""

from __future__ import annotations

import pytest

from egress.inspect.mcp.resource_address import is_plain_address


@pytest.mark.parametrize(
    "text", ["repo://acme/app", "file:///a/b.txt", "a", "x://a/...", "x://a%20b", "mail:ä"]
)
def test_a_plain_address(text: str) -> None:
    assert is_plain_address(text)


@pytest.mark.parametrize(
    "text",
    ["x://a/../b", "x://a/.", "..", "x://a/%2e%2E/b", "x://a%2fb", "x://a%5cb", "x:\\a",
     "x://%252e", "x://a%00", "a\n"],
)  # fmt: skip
def test_an_address_that_a_server_may_read_as_another(text: str) -> None:
    assert not is_plain_address(text)
