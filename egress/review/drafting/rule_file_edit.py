"""Insertion of lines into the text of a rule file, to try a suggestion before it is shown.

Only two places are certain enough: directly below the line of a section, and directly before an item of a
block list. A person has to make every other edit. This module never writes a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from egress.rules.compile.load import RuleText


@dataclass(frozen=True, slots=True)
class RuleFileEdit:
    """Lines to insert before line `line` of a file, or at its end."""

    file: str
    line: int
    lines: tuple[str, ...]


def apply_edit(sources: Sequence[RuleText], edit: RuleFileEdit) -> list[RuleText]:
    """Return the texts with the edit applied."""
    return [RuleText(s.name, _with(s.text, edit)) if s.name == edit.file else s for s in sources]


def _with(text: str, edit: RuleFileEdit) -> str:
    lines = _lines(text)
    at = max(0, min(edit.line - 1, len(lines)))
    return "\n".join([*lines[:at], *edit.lines, *lines[at:]]) + "\n"


def _lines(text: str) -> list[str]:
    """Split a text into lines as the rule loader counts them."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def below_section(sources: Sequence[RuleText], section: str, lines: Sequence[str]) -> RuleFileEdit | None:
    """Insert `lines` at the top of a section with its indentation, or append a new section.

    None if the section is written in braces on one line.
    """
    for source in sources:
        written = _lines(source.text)
        for number, line in enumerate(written):
            if re.fullmatch(rf"{section}:[ \t]*(?:#.*)?", line):
                indent = _indent(written[number + 1 :])
                return RuleFileEdit(source.name, number + 2, tuple(indent + text for text in lines))
    # The section exists in a form that cannot be extended safely, such as braces or a quoted key.
    if not sources or any(
        re.match(rf"['\"]?{section}\b", line) for s in sources for line in s.text.splitlines()
    ):
        return None
    last = sources[-1]
    end = len(_lines(last.text)) + 1
    return RuleFileEdit(last.name, end, ("", f"{section}:", *(f"  {text}" for text in lines)))


def before_item(sources: Sequence[RuleText], file: str, line: int, text: str) -> RuleFileEdit | None:
    """Insert an item before an item of a block list; None if no item begins on that line."""
    for source in sources:
        lines = _lines(source.text)
        if source.name != file or not 1 <= line <= len(lines):
            continue
        match = re.match(r"([ ]*)-[ ]+\S", lines[line - 1])
        return RuleFileEdit(file, line, (f"{match[1]}- {text}",)) if match else None
    return None


def _indent(lines: Sequence[str]) -> str:
    """Return the indentation of the first item."""
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            found = line[: len(line) - len(line.lstrip(" "))]
            return found or "  "
    return "  "
