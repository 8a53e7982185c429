"""The generated pages are what the code says today."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs import PAGES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("place", PAGES)
def test_a_generated_page_is_current(place: str) -> None:
    page = ROOT / place
    assert page.is_file(), "run make docs"
    assert page.read_text(encoding="utf-8") == PAGES[place](), "run make docs"
