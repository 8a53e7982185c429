r"""Formatting of values for a page: untrusted text made visible, numbers made short. Pure.

The templates escape every value. This module writes an invisible character, or one that reverses the text
around it, as an escape such as `\u202e`. The command line does the same.
"""

from __future__ import annotations

import shlex

from markupsafe import Markup, escape

from egress.review.timestamps import format_moment as moment

MAX_TEXT_CHARS = 2000
"""Longer text is cut: a table cell needs no more."""


def visible(text: str, most: int = MAX_TEXT_CHARS) -> str:
    """Return the text with every character visible."""
    cut = text if len(text) <= most else f"{text[:most]}…"
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


def finalize(value: object) -> object:
    """Make a value safe to print. Templates call this for every value, before escaping."""
    # `Markup` is a subclass of `str`, and is our own HTML: only plain strings are changed.
    if type(value) is str:
        return visible(value)
    return "" if value is None else value


def ticks(text: str) -> Markup:
    """Return a sentence of ours with its quoted words, such as `egress log verify`, as code."""
    parts = visible(text).split("`")
    # An odd number of marks quotes nothing: then all of them stay as they are.
    if len(parts) % 2 == 0:
        return escape(visible(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def curl(method: str, scheme: str, host: str, port: int, path: str) -> str:
    """Return the command that sends a request like this one; the log holds no query and no body."""
    where = host if port in {0, 443 if scheme == "https" else 80} else f"{host}:{port}"
    words = ["curl", "-i", "-X", method, f"{scheme}://{where}{path}"]
    return " ".join(shlex.quote(visible(word)) for word in words)


def lines(text: str) -> list[str]:
    """Split one of our own texts that may quote untrusted text, such as a draft."""
    return [visible(line, 10_000) for line in text.split("\n")]


def number(value: int) -> str:
    """`12,345`."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """`1 line`, `12,345 lines`."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def size(value: int) -> str:
    """`1.2 MB`."""
    for unit, of in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if value >= of:
            return f"{value / of:.1f} {unit}"
    return f"{value} B"


def duration(microseconds: int) -> str:
    """`12 ms`; empty for 0."""
    if not microseconds:
        return ""
    if microseconds >= 60_000_000:
        return f"{microseconds / 60_000_000:.0f} min"
    if microseconds >= 10_000_000:
        return f"{microseconds / 1_000_000:.0f} s"
    if microseconds >= 1_000_000:
        return f"{microseconds / 1_000_000:.1f} s"
    return f"{microseconds / 1000:.0f} ms" if microseconds >= 1000 else f"{microseconds} us"


def age(seconds: float) -> str:
    """`40 s`, `3 min`, `2 h`."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def share(part: int, whole: int) -> str:
    """`3 %`; `<1 %` for a small share above 0."""
    if not part or not whole:
        return "0 %"
    percent = part * 100 / whole
    return "<1 %" if percent < 1 else f"{percent:.0f} %"


def when(microseconds: int) -> str:
    """Format a moment to the minute: `2026-03-01 09:30`."""
    return moment(microseconds)[:16].replace("T", " ")
