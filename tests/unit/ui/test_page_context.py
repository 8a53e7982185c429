"""What all pages stand on."""

from __future__ import annotations

import hashlib
import re

import pytest
from jinja2 import UndefinedError

from egress.ui.page_context import STATIC_FILES, UI_FOLDER, environment

HTMX = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
"""That of `dist/htmx.min.js` in htmx.org 2.0.11."""


def test_everything_is_escaped_and_made_visible() -> None:
    found = environment().from_string("<p title='{{ a }}'>{{ a }}</p>").render(a="<b>'\"\u202e")
    assert found == "<p title='&lt;b&gt;&#39;&#34;\\u202e'>&lt;b&gt;&#39;&#34;\\u202e</p>"


def test_what_a_template_does_not_get_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        environment().from_string("{{ nothing }}").render()


def test_no_template_turns_escaping_off() -> None:
    for file in (UI_FOLDER / "templates").iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape|Markup", text), file.name
        assert not re.search(r"\sstyle=|\son\w+=|<script>|<style|javascript:|hx-on|hx-vals", text), file.name
        assert not re.search(r"(?:https?:)?//[a-z]", text), f"{file.name} names another place"


def test_the_script_of_others_is_the_one_that_was_taken_in() -> None:
    assert hashlib.sha256(STATIC_FILES["htmx.min.js"]).hexdigest() == HTMX
    assert "Zero-Clause BSD" in (UI_FOLDER / "static/htmx.LICENSE").read_text(encoding="utf-8")


def test_the_style_fetches_nothing() -> None:
    assert b"url(" not in STATIC_FILES["style.css"]
    assert b"@import" not in STATIC_FILES["style.css"]
