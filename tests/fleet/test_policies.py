"""Changes as people write them become grants, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.api.policy_schema import GrantSettings
from egress.errors import UsageError
from egress.fleet.policies import given_fields, read_change


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("https://a.example", {"host": "a.example", "port": 443}),
        (
            " GET,HEAD  https://*.a.example:8443/b/** ",
            {"host": "*.a.example", "port": 8443, "methods": ["GET", "HEAD"], "paths": ["/b/**"]},
        ),
    ],
)
def test_a_url_with_methods_in_front_is_a_change(text: str, fields: dict[str, object]) -> None:
    assert given_fields(read_change("allow", text, 5)) == {"kind": "allow", "ttl": 5, **fields}


@pytest.mark.parametrize(
    "text", ["", "a.example", "http://a.example", "https://a@b.example", "https://a?b", "GET"]
)
def test_any_other_text_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="deny needs an https URL"):
        read_change("deny", text, 5)


@given(st.text())
def test_no_text_is_read_as_more_than_one_host(text: str) -> None:
    try:
        found = read_change("allow", f"https://{text}", 5)
    except UsageError:
        return
    assert isinstance(found, GrantSettings)
    assert not set(found.host or "/") & set("/:@?# \n")
