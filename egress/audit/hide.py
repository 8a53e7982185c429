"""Taking out of the names that a sandbox asked for what nobody is to read in a log.

What that is the audit does not know: it is told by whoever knows what was planted in which sandbox.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Hide = Callable[[str, str], str]
"""Sandbox and text to the text as it may be written."""


def as_it_is(_: str, text: str) -> str:
    """The text."""
    return text


def without[T: DataclassInstance](value: T, hide: Hide, sandbox: str, *fields: str) -> T:
    """The value with these fields as they may be written; itself where that is what they are."""
    changes = {}
    for field in fields:
        said = getattr(value, field)
        shown = hide(sandbox, said) if said else said
        if shown != said:
            changes[field] = shown
    return replace(value, **changes) if changes else value
