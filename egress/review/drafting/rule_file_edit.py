"""Small changes of the text of a rule file, to try a suggestion before it is shown.

Theory of operation. A file is read with the position of each value, so a key or an item can be added exactly
where it belongs, in the style that is there: as lines of its own in a block, or within the line between
brackets and braces. Everything else of the text keeps its bytes. Only the entry of a host that is its own
rule is written anew, from what the file says of it. Whether the result is right is not known here: the caller
loads it.

This module never writes a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from egress.rules.compile.load import RuleText
from egress.rules.compile.policy_writer import Json, flow, scalar
from egress.rules.language import document as documents
from egress.rules.language.document import Position, Value, ValuePath

_EMPTY = re.compile(r"\{[ \t]*\}|\[[ \t]*\]")


@dataclass(frozen=True, slots=True)
class RuleFileEdit:
    """Lines to write before line `line` of a file, or in place of `replaced` lines from there on."""

    file: str
    line: int
    lines: tuple[str, ...]
    replaced: int = 0
    is_end: bool = False

    @property
    def where(self) -> str:
        """The place in words."""
        if self.is_end:
            return f"{self.file}, at its end"
        if not self.replaced:
            return f"{self.file}, before line {self.line}"
        if self.replaced == 1:
            return f"{self.file}, in place of line {self.line}"
        return f"{self.file}, in place of lines {self.line} to {self.line + self.replaced - 1}"


def apply_edit(sources: Sequence[RuleText], edit: RuleFileEdit) -> list[RuleText]:
    """Return the texts with the edit applied."""
    return [RuleText(s.name, _with(s.text, edit)) if s.name == edit.file else s for s in sources]


def _with(text: str, edit: RuleFileEdit) -> str:
    lines = _lines(text)
    at = max(0, min(edit.line - 1, len(lines)))
    return "\n".join([*lines[:at], *edit.lines, *lines[at + edit.replaced :]]) + "\n"


def _lines(text: str) -> list[str]:
    """Split a text into lines as the rule loader counts them."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


class RuleFileText:
    """The text of a rule file, with the place of each of its values."""

    def __init__(self, source: RuleText) -> None:
        self.name = source.name
        self.lines = _lines(source.text)
        self.document, _ = documents.read(source.name, source.text)

    def value(self, path: ValuePath) -> Value | None:
        """Return the value at a path; None if there is none."""
        current: Value | None = self.document.value
        for step in path:
            if isinstance(current, dict) and isinstance(step, str):
                current = current.get(step)
            elif isinstance(current, list) and isinstance(step, int) and step < len(current):
                current = current[step]
            else:
                return None
        return current

    def _start(self, path: ValuePath) -> Position:
        """Return where the value at a path begins."""
        if not path:
            return (0, 0)
        *above, step = path
        parent = self.value(tuple(above))
        if isinstance(parent, list) and isinstance(step, int):
            return self.document.items[id(parent)][step]
        return self.document.values[id(parent)][str(step)]

    def _at(self, spot: Position) -> str:
        return self.lines[spot[0]][spot[1] :] if spot[0] < len(self.lines) else ""

    def _inline(self, spot: Position, text: str, *, over: int = 0) -> RuleFileEdit:
        """Write a text into a line, over as many of its characters."""
        line = self.lines[spot[0]]
        return RuleFileEdit(
            self.name, spot[0] + 1, (line[: spot[1]] + text + line[spot[1] + over :],), replaced=1
        )

    def add_key(self, path: ValuePath, key: str, value: Json) -> RuleFileEdit | None:
        """Add a key to the mapping at a path, which must be there; None if its text has no certain place."""
        mapping = self.value(path)
        if not isinstance(mapping, dict):
            return None
        start = self._start(path)
        if (empty := _EMPTY.match(self._at(start))) is not None:
            return self._inline(start, f"{{ {scalar(key)}: {flow(value)} }}", over=len(empty[0]))
        first = min(self.document.keys[id(mapping)].values(), default=None)
        if first is None:
            return None
        if self._at(start).startswith("{"):
            return self._inline(first, f"{scalar(key)}: {flow(value)}, ")
        before = self.lines[first[0]][: first[1]]
        lines = _block_lines(" " * first[1], key, value)
        if not before.strip():
            # Below the line of the key above it, so that a comment stays with what it is about.
            line = self.document.keys[id(self.value(path[:-1]))][str(path[-1])][0] + 1 if path else first[0]
            return RuleFileEdit(self.name, line + 1, lines)
        # The first key stands behind the dash of a list item: the new one takes its place there.
        moved = " " * first[1] + self._at(first)
        return RuleFileEdit(
            self.name, first[0] + 1, (before + lines[0].lstrip(), *lines[1:], moved), replaced=1
        )

    def add_item(self, path: ValuePath, item: Json) -> RuleFileEdit | None:
        """Add an item to the list at a path, which must be there; None if its text has no certain place."""
        values = self.value(path)
        if not isinstance(values, list):
            return None
        start = self._start(path)
        if (empty := _EMPTY.match(self._at(start))) is not None:
            return self._inline(start, f"[{flow(item)}]", over=len(empty[0]))
        first = self.document.items[id(values)][0]
        if self._at(start).startswith("["):
            return self._inline(first, f"{flow(item)}, ")
        dash = re.fullmatch(r"([ ]*)-[ ]+", self.lines[first[0]][: first[1]])
        return None if dash is None else RuleFileEdit(self.name, first[0] + 1, (f"{dash[1]}- {_item(item)}",))

    def replace_word(self, path: ValuePath, word: str, value: Json) -> RuleFileEdit | None:
        """Replace a value that is a single word."""
        start = self._start(path)
        return self._inline(start, flow(value), over=len(word)) if self._at(start).startswith(word) else None

    def rewrite(self, path: ValuePath, value: dict[str, Json]) -> RuleFileEdit | None:
        """Write a key of a block and its mapping anew; None if the text around it has no certain end."""
        *above, key = path
        parent = self.value(tuple(above))
        if not isinstance(parent, dict):
            return None
        keys = self.document.keys[id(parent)]
        first, indent = keys[str(key)]
        if self.lines[first][:indent].strip():
            return None
        last = first + 1
        # The end is the next line that stands no deeper, without the comments and blank lines before it.
        while last < len(self.lines) and (
            not (line := self.lines[last]).strip() or len(line) - len(line.lstrip(" ")) > indent
        ):
            last += 1
        while not self.lines[last - 1].strip() or self.lines[last - 1].lstrip().startswith("#"):
            last -= 1
        lines = [f"{' ' * indent}{scalar(str(key))}:"]
        for name, item in value.items():
            lines += _block_lines(" " * (indent + 2), name, item)
        return RuleFileEdit(self.name, first + 1, tuple(lines), replaced=last - first)


def new_section(
    sources: Sequence[RuleText], section: str, content: dict[str, Json] | list[Json]
) -> RuleFileEdit | None:
    """Append a section to the last file; None if there is no file."""
    if not sources:
        return None
    last = sources[-1]
    if isinstance(content, list):
        lines = [f"  - {_item(item)}" for item in content]
    else:
        lines = [line for key, value in content.items() for line in _block_lines("  ", key, value)]
    end = len(_lines(last.text)) + 1
    return RuleFileEdit(last.name, end, ("", f"{section}:", *lines), is_end=True)


def _block_lines(indent: str, key: str, value: Json) -> tuple[str, ...]:
    """Write a key of a block; a list of mappings gets a line for each."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return (f"{indent}{scalar(key)}:", *(f"{indent}  - {_item(item)}" for item in value))
    return (f"{indent}{scalar(key)}: {_item(value)}",)


def _item(value: Json) -> str:
    """Write a value in one line, a mapping with spaces inside its braces."""
    if isinstance(value, dict) and value:
        return "{ " + ", ".join(f"{scalar(name)}: {flow(item)}" for name, item in value.items()) + " }"
    return flow(value)
