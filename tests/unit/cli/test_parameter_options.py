"""Parameters on the command line."""

from __future__ import annotations

import pytest

from egress.cli.parameter_options import read_parameters
from egress.errors import UsageError


def test_values_may_have_anything_behind_the_first_sign() -> None:
    assert read_parameters(["b=x=y", "a="]) == (("a", ""), ("b", "x=y"))


@pytest.mark.parametrize("texts", [["a"], ["=x"], [""], ["a=1", "a=2"]])
def test_anything_else_is_a_mistake_of_the_command_line(texts: list[str]) -> None:
    with pytest.raises(UsageError):
        read_parameters(texts)
