"""A captured variable."""

from __future__ import annotations

import pytest

from egress.errors import UnreadableError
from egress.secrets.source_factory import VariableSecretSource
from egress.secrets.source_value import ENDLESS_LIFETIME, SourceValue
from tests.unit.secrets.secret_samples import TOKEN


def test_gives_the_captured_value_for_ever() -> None:
    value = SourceValue(TOKEN)
    source = VariableSecretSource("TOKEN", {"TOKEN": value})
    assert source.fetch() is value
    assert source.lifetime(60) == ENDLESS_LIFETIME


def test_a_variable_that_was_not_there_is_named() -> None:
    with pytest.raises(UnreadableError, match="TOKEN was not set") as caught:
        VariableSecretSource("TOKEN", {}).fetch()
    assert "start again" in caught.value.hint
