"""Hands the output of a command to callbacks as text, piece by piece."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from egress.runtime.errors import SpecTypeError
from egress.runtime.protocol import Output

OutputCallback = Callable[[str], object] | Callable[[bytes], object]
"""Gets each piece of output: text, or bytes where bytes were asked for."""


class OutputDecoder:
    """Hands output to a callback: as text, or as the bytes that arrived.

    A character that is cut between two pieces comes with the second piece. Bytes that are not UTF-8 are
    replaced by U+FFFD.
    """

    def __init__(self, what: str, callback: OutputCallback | None, *, text: bool) -> None:
        """`what` names the callback in the error for a value that cannot be called."""
        if callback is not None and not callable(callback):
            raise SpecTypeError(f"{what} cannot be called", "pass a function that takes a piece of output")
        self._callback = callback
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace") if text else None

    @property
    def sink(self) -> Callable[[bytes], object] | None:
        """The callback for a runtime; None without one."""
        return None if self._callback is None else self._add

    def close(self) -> None:
        """Hand over the begun character whose rest never came."""
        if self._decoder is not None:
            self._hand_over(self._decoder.decode(b"", final=True))

    def _add(self, piece: bytes) -> None:
        if self._decoder is not None:
            self._hand_over(self._decoder.decode(piece))
        elif self._callback is not None:
            cast("Callable[[bytes], object]", self._callback)(piece)

    def _hand_over(self, text: str) -> None:
        # A piece may hold nothing but the beginning of a character.
        if text and self._callback is not None:
            cast("Callable[[str], object]", self._callback)(text)


@contextmanager
def decoded_output(
    on_stdout: OutputCallback | None, on_stderr: OutputCallback | None, *, text: bool
) -> Iterator[Output]:
    """The callbacks of a command, for a runtime. At the end of the context both outputs have ended."""
    out = OutputDecoder("on_stdout", on_stdout, text=text)
    err = OutputDecoder("on_stderr", on_stderr, text=text)
    yield Output(out.sink, err.sink)
    out.close()
    err.close()
