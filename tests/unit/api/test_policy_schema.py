"""What may be asked about the rules of a sandbox is bounded before anything looks at it."""

from __future__ import annotations

import msgspec
import pytest

from egress.api.policy_schema import MAX_URL_CHARS, DelegationView, GrantSettings, RequestSettings


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (GrantSettings, {"kind": "allow", "ttl": 7 * 86400 + 1}),
        (GrantSettings, {"kind": "secret", "ttl": 1}),
        (GrantSettings, {"kind": "allow", "ttl": 1, "host": ""}),
        (GrantSettings, {"kind": "allow", "ttl": 1, "inject": "tracker"}),
        (RequestSettings, {"url": "a" * (MAX_URL_CHARS + 1)}),
        (RequestSettings, {"url": "a", "headers": {f"x-{n}": "b" for n in range(65)}}),
        (RequestSettings, {"url": "a", "method": "A" * 65}),
    ],
    ids=["long", "kind", "host", "further", "url", "headers", "method"],
)
def test_more_than_the_bounds_is_refused(kind: type[msgspec.Struct], wrong: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, kind)


def test_a_delegation_does_not_tell_whom_else_it_is_for() -> None:
    shown = msgspec.convert({"id": "a", "ttl": 1, "to": {"sandboxes": ["other"]}}, DelegationView)
    assert "other" not in str(msgspec.to_builtins(shown))
