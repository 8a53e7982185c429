"""Help texts that settings and commands share."""

from __future__ import annotations

import pytest

from egress.proxy import setting_texts
from egress.proxy.settings import Settings

NAMES = [name for name in vars(setting_texts) if name.isupper()]


@pytest.mark.parametrize("name", NAMES)
def test_each_is_the_text_of_a_setting(name: str) -> None:
    text = getattr(setting_texts, name)
    assert Settings.model_fields[name.lower()].description == text
    assert text.endswith(".")
