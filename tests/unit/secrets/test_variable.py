"""A captured variable."""

from __future__ import annotations

import pytest

from egress.errors import UnreadableError
from egress.secrets.lifetime import FOR_EVER
from egress.secrets.value import Value
from egress.secrets.variable import VariableSource
from tests.unit.secrets.rig import TOKEN


def test_gives_the_captured_value_for_ever() -> None:
    value = Value(TOKEN)
    source = VariableSource("TOKEN", {"TOKEN": value})
    assert source.look() is value
    assert source.lifetime(60) == FOR_EVER


def test_a_variable_that_was_not_there_is_named() -> None:
    with pytest.raises(UnreadableError, match="TOKEN was not set") as caught:
        VariableSource("TOKEN", {}).look()
    assert "start again" in caught.value.hint
