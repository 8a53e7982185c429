"""Names of handlers in the rules, against those that are loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.errors import ContentError
from egress.handlers.caller import NO_HANDLERS
from egress.handlers.in_process import InProcessHandlers
from egress.handlers.opening import open_handlers, refuse_unknown_handlers, unknown_handlers
from egress.handlers.own_process import ProcessHandlers
from egress.rules.decide.outbound import NO_OUTBOUND, Outbound
from tests.unit.handlers.samples import file_of
from tests.unit.rules.rule_samples import policy

RULES = """
version: 1
hosts:
  api.example.com:
    handler: {use: first}
    allow:
      - {id: read, methods: [GET], handler: {use: second}}
"""


def test_the_first_unknown_name_is_told_with_its_place_and_the_name_that_is_meant() -> None:
    found = policy(RULES)
    assert [name for _, name, _ in unknown_handlers(found, Outbound({"first": 0}))] == ["second"]
    refuse_unknown_handlers(found, Outbound({"first": 0, "second": 0}))
    with pytest.raises(ContentError, match="names the handler second, which is not loaded") as caught:
        refuse_unknown_handlers(found, Outbound({"first": 0, "seconds": 0}))
    assert "seconds" in caught.value.hint
    with pytest.raises(ContentError, match="no handlers are loaded") as caught:
        refuse_unknown_handlers(found, NO_OUTBOUND)
    assert "--handlers" in caught.value.hint


async def test_the_two_forms(tmp_path: Path) -> None:
    file = file_of(tmp_path, "@handler\nasync def one(request, context): return Allow()\n")
    assert await open_handlers(None, in_process=False) is NO_HANDLERS
    inside = await open_handlers(file, in_process=True)
    outside = await open_handlers(file, in_process=False)
    await outside.close()
    assert isinstance(inside, InProcessHandlers)
    assert isinstance(outside, ProcessHandlers)
    assert inside.outbound == outside.outbound
