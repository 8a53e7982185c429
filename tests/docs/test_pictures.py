"""The pictures of the documentation: made by the script, shown somewhere, and of the page as it is."""

from __future__ import annotations

import re

from scripts.pages import PAGES
from scripts.pictures.__main__ import MADE_OF, PICTURES, digest
from scripts.pictures.shots import SHOTS

_SHOWN = re.compile(
    r"!\[[^\]]+\]\((?:\.\./)+pictures/([\w-]+)\.png\)|!\[[^\]]+\]\((?:docs/)?pictures/([\w-]+)\.png\)"
)


def test_every_picture_is_made_by_the_script() -> None:
    assert {path.stem for path in PICTURES.glob("*.png")} == {shot.name for shot in SHOTS}


def test_every_picture_is_shown() -> None:
    shown = {one or other for page in PAGES for one, other in _SHOWN.findall(page.read_text())}
    assert shown == {shot.name for shot in SHOTS}


def test_no_picture_is_of_a_page_as_it_was() -> None:
    """Templates, style and the script itself are in the digest."""
    assert MADE_OF.read_text().strip() == digest(), "the pictures are of another page: `make pictures`"
