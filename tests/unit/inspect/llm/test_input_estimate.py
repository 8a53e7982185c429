"""The estimate of the input: bytes of text, images, and other files."""

from __future__ import annotations

import pytest

from egress.inspect.llm.input_estimate import TOKENS_PER_IMAGE, content_size, count_numbers
from egress.inspect.strict_json import JsonValue

BLOB = "A" * 300_000


def test_text_counts_by_its_bytes() -> None:
    assert content_size({"messages": []}, 31).tokens == 11


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BLOB}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BLOB}"}},
        {"inlineData": {"mimeType": "image/webp", "data": BLOB}},
        {"image": {"format": "png", "source": {"bytes": BLOB}}},
    ],
)
def test_an_image_counts_as_one_however_large_it_is(part: JsonValue) -> None:
    size = content_size({"content": [part]}, 300_300)
    assert TOKENS_PER_IMAGE <= size.tokens <= TOKENS_PER_IMAGE + 150
    assert not size.fetches


@pytest.mark.parametrize(
    "part",
    [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": BLOB}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{BLOB}"}},
        {"inlineData": {"mimeType": "audio/wav", "data": BLOB}},
        {"type": "text", "text": BLOB},
        {"data": BLOB},
    ],
)
def test_other_contents_count_by_their_bytes(part: JsonValue) -> None:
    assert content_size({"content": [part]}, 300_300).tokens >= 100_000


def test_a_type_that_is_no_text_is_no_type() -> None:
    assert content_size({"type": ["image"], "a": {"type": {}}}, 30).tokens == 10


def test_numbers_in_lists_are_counted() -> None:
    assert count_numbers([[1, 2], [3], "x", None]) == 3
    assert count_numbers("text") == 0
