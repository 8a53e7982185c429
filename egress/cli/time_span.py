"""Spans of time for people."""

from __future__ import annotations


def span(seconds: float) -> str:
    """Return `90s`, `12m`, `5h` or `3d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"
