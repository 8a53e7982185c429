"""The shape of a delegation: keys and bounds."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from egress.rules.language.delegation_models import DelegateItem

ITEM: dict[str, object] = {"id": "d", "to": {"sandboxes": ["agent-*"]}, "ttl": "15m"}


def test_a_delegation_names_whom_it_is_for_and_how_long() -> None:
    made = DelegateItem.model_validate(ITEM)
    assert (made.to.sandboxes, made.ttl, made.may) == (["agent-*"], "15m", None)


@pytest.mark.parametrize(
    "change", [{"ttl": 1.5}, {"may": []}, {"may": ["all"]}, {"hosts": []}, {"ports": [0]}, {"until": "x"}]
)
def test_other_keys_and_words_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DelegateItem.model_validate({**ITEM, **change})
