"""Ids of connections and requests: for the audit, and for a sandbox to quote."""

from __future__ import annotations

import base64
import secrets
from typing import Final

_BYTES: Final = 9
"""Of chance in one id: a multiple of three, so that ids can be cut from one text."""
_LETTERS: Final = _BYTES * 4 // 3
_AT_ONCE: Final = 256


class Ids:
    """Makes ids that nobody can guess and that never come again."""

    __slots__ = ("_ready",)

    def __init__(self) -> None:
        self._ready: list[str] = []

    def __call__(self) -> str:
        """A new id, made of letters, digits, `-` and `_`."""
        if not self._ready:
            # Many at once: to ask the kernel for each of them costs more than all the rest of it.
            text = base64.urlsafe_b64encode(secrets.token_bytes(_BYTES * _AT_ONCE)).decode("ascii")
            self._ready = [text[at : at + _LETTERS] for at in range(0, len(text), _LETTERS)]
        return self._ready.pop()
