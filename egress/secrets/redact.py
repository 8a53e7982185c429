"""Mask secret values in log events: the last safeguard behind code that never logs a secret.

Theory of operation. The processor is the first of the chain and sees an event before it is rendered. Text is
searched for every spelling of every known value. Any other object except a plain container is searched by its
`repr`, which is its rendered form, and kept if that is clean. An exception is searched by its traceback, and
replaced by the masked text if that contains a value.

Fails closed: a value that cannot be searched is not logged. Additions of later processors, such as the local
variables of a frame, are not seen: use renderers without them, or add this processor again behind.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from types import TracebackType
from typing import Protocol

from egress.scrub import Masked

type Info = tuple[type[BaseException], BaseException, TracebackType | None]

_MAX_DEPTH = 8
_HIDDEN_TEXT = "(not shown: it could not be searched for secrets)"
_PLAIN_TYPES = (bool, type(None))


class NeedleSearch(Protocol):
    """A search for values: `Needles`, or several of them joined."""

    def __len__(self) -> int: ...

    def mask(self, data: bytes) -> Masked: ...


class Redactor:
    """A structlog processor; `needles` is called for every event, so it should answer from memory."""

    __slots__ = ("_needles",)

    def __init__(self, needles: Callable[[], NeedleSearch]) -> None:
        self._needles = needles

    def __call__(
        self,
        logger: object,  # noqa: ARG002 - the contract of a processor
        method: str,  # noqa: ARG002
        event: MutableMapping[str, object],
    ) -> MutableMapping[str, object]:
        """Return the event without secrets."""
        try:
            search = _EventSearch(self._needles())
            # Without secrets there is nothing to mask, and logging stays cheap.
            if not search.has_needles:
                return event
            clean = {search.text(name): search.clean(value) for name, value in event.items()}
            return {**clean, **search.exception(event.get("exc_info"))}
        except Exception:  # noqa: BLE001 - an event that cannot be searched is not shown
            return {"event": _HIDDEN_TEXT}


class _EventSearch:
    """The search through one event."""

    __slots__ = ("_needles", "has_needles")

    def __init__(self, needles: NeedleSearch) -> None:
        self._needles = needles
        self.has_needles = len(needles) > 0

    def clean(self, value: object, depth: int = 0) -> object:
        """Return the value itself if it is clean, else its masked form."""
        if isinstance(value, _PLAIN_TYPES):
            return value
        # Exact types only: a subclass may be rendered as another text than it holds.
        if type(value) is str:
            return self.text(value)
        if type(value) is bytes:
            return self._needles.mask(value).data
        # Deeper values are searched by their `repr`, so that a container that holds itself ends here.
        if depth < _MAX_DEPTH:
            if type(value) is dict:
                return {self.clean(k, depth + 1): self.clean(v, depth + 1) for k, v in value.items()}
            if type(value) is list:
                return [self.clean(item, depth + 1) for item in value]
            if type(value) is tuple:
                return tuple(self.clean(item, depth + 1) for item in value)
        return self._other(value)

    def text(self, text: str) -> str:
        """Mask in each encoding in which bytes become text: UTF-8, file names, and the wire's latin-1."""
        data = text.encode("utf-8", "surrogateescape" if _is_encodable(text) else "surrogatepass")
        masked = self._needles.mask(data)
        if masked.hits:
            text = masked.data.decode("utf-8", "replace")
        if text.isascii():
            return text
        narrow = text.encode("latin-1", "replace")
        masked = self._needles.mask(narrow)
        return masked.data.decode("latin-1") if masked.hits else text

    def exception(self, info: object) -> Mapping[str, object]:
        """Return the replacement of `exc_info`: empty if its traceback is clean."""
        error = _error(info)
        if error is None:
            return {}
        shown = "".join(traceback.format_exception(error))
        masked = self.text(shown)
        return {} if masked == shown else {"exc_info": None, "exception": masked}

    # Renderers may use `repr` or `str`, so both must be clean.
    def _other(self, value: object) -> object:
        shown, said = repr(value), str(value)
        masked = self.text(shown)
        if masked != shown:
            return masked
        masked = self.text(said)
        return value if masked == said else masked


def _is_encodable(text: str) -> bool:
    """Report whether all surrogates in the text are bytes of a file name."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _error(info: object) -> BaseException | None:
    """Return the exception of an event, in any of the forms that structlog accepts."""
    if isinstance(info, BaseException):
        return info
    if isinstance(info, tuple) and len(info) == 3 and isinstance(info[1], BaseException):
        return info[1]
    return sys.exc_info()[1] if info else None
