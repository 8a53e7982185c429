"""One call of the API: its target, and the status of its success."""

from __future__ import annotations

from egress.api.operation import Operation


def _operation(**values: str) -> Operation:
    return Operation(name="x", method="GET", path="/v1/a/{name}/b/{part}", summary="X.", **values)  # type: ignore[arg-type]


def test_every_part_is_escaped_by_itself() -> None:
    target = _operation().target({"name": "a/b", "part": "c d"}, {"q": "e&f"})
    assert target == "/v1/a/a%2Fb/b/c%20d?q=e%26f"


def test_a_call_without_an_answer_has_no_content() -> None:
    assert (_operation().usual_status, _operation(returns="none").usual_status) == (200, 204)
