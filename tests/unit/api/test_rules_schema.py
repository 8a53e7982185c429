"""A text of rules is bounded, and no call names a file."""

from __future__ import annotations

import msgspec
import pytest

from egress.api.operations import OPERATIONS
from egress.api.rules_schema import MAX_RULES_CHARS, RulesText


def test_a_text_is_bounded() -> None:
    assert len(msgspec.convert({"text": "a" * MAX_RULES_CHARS}, RulesText).text) == MAX_RULES_CHARS
    wrongs: list[object] = [{"text": "a" * (MAX_RULES_CHARS + 1)}, {"text": "a", "file": "b"}, {"files": []}]
    for wrong in wrongs:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, RulesText)


def test_a_reload_takes_nothing() -> None:
    reload = OPERATIONS["reload_rules"]
    assert (reload.body, reload.query, reload.owner_only) == (None, None, True)
