"""Output reaches callbacks as text, however its bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.runtime.errors import SpecTypeError
from egress.sandbox.output_decoder import OutputDecoder, decoded_output


@given(st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=4).map(str.encode)), max_size=8))
def test_text_is_the_same_in_any_pieces(pieces: list[bytes]) -> None:
    """The pieces together are what the result holds: the same bytes, decoded at once."""
    told: list[str] = []
    with decoded_output(told.append, None, text=True) as output:
        assert output.stdout is not None
        for piece in pieces:
            output.stdout(piece)
    assert "".join(told) == b"".join(pieces).decode("utf-8", "replace")
    assert "" not in told


@given(st.lists(st.binary(max_size=6), max_size=8))
def test_bytes_arrive_as_they_are(pieces: list[bytes]) -> None:
    told: list[bytes] = []
    with decoded_output(None, told.append, text=False) as output:
        assert output.stdout is None
        assert output.stderr is not None
        for piece in pieces:
            output.stderr(piece)
    assert told == pieces


def test_a_begun_character_is_not_handed_over_after_a_failure() -> None:
    told: list[str] = []

    def fail() -> None:
        with decoded_output(told.append, None, text=True) as output:
            assert output.stdout is not None
            output.stdout(b"a\xc3")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert told == ["a"]


def test_what_cannot_be_called_is_named() -> None:
    with pytest.raises(SpecTypeError, match="on_stdout"):
        OutputDecoder("on_stdout", 5, text=True)  # type: ignore[arg-type]
