"""The table of operations is unambiguous, and its targets are escaped."""

from __future__ import annotations

import re

from egress.api.operations import OPERATIONS


def test_no_two_operations_share_a_method_and_a_path() -> None:
    places = [(each.method, each.path, each.returns == "websocket") for each in OPERATIONS.values()]
    assert len(set(places)) == len(places)


def test_each_operation_says_what_it_does_in_a_sentence() -> None:
    for each in OPERATIONS.values():
        assert re.fullmatch(r"[A-Z][^\n]+\.", each.summary), each.name
        assert each.path.startswith("/v1/")


def test_parts_of_a_path_cannot_leave_their_place() -> None:
    target = OPERATIONS["get_sandbox"].target({"name": "../a?b=/%"})
    assert target == "/v1/sandboxes/..%2Fa%3Fb%3D%2F%25"


def test_a_query_is_escaped_and_may_name_a_parameter_twice() -> None:
    target = OPERATIONS["list_sandboxes"].target({}, [("label", "a=b&c"), ("label", "d=e")])
    assert target == "/v1/sandboxes?label=a%3Db%26c&label=d%3De"
