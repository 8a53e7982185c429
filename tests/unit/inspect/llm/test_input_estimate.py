"""The estimate of the input: bytes of text, images, and other files."""

from __future__ import annotations

import pytest

from egress.inspect.llm.input_estimate import (
    STORED_INPUT_TOKENS,
    TOKENS_PER_IMAGE,
    content_size,
    count_numbers,
)
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
        # A prompt that looks like the data of an image.
        {"type": "text", "text": f"data:image/png;base64,{BLOB}"},
        {"role": "user", "content": f"data:image/png;base64,{BLOB}", "type": "message"},
    ],
)
def test_other_contents_count_by_their_bytes(part: JsonValue) -> None:
    assert content_size({"content": [part]}, 300_300).tokens >= 100_000


def test_a_type_that_is_no_text_is_no_type() -> None:
    assert content_size({"type": ["image"], "a": {"type": {}}}, 30).tokens == 10


def test_numbers_in_lists_are_counted() -> None:
    assert count_numbers([[1, 2], [3], "x", None]) == 3
    assert count_numbers("text") == 0


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_file", "file_id": "f"},
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
        {"type": "document", "source": {"type": "url", "url": "https://x"}},
        {"fileData": {"fileUri": "https://x"}},
        # A few bytes may be the tree of a thousand pages.
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "eA=="}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,eA=="}},
        {"document": {"format": "docx", "source": {"bytes": "eA=="}}},
        {"inlineData": {"mimeType": "video/mp4", "data": "eA=="}},
        {"type": "video_url", "video_url": {"url": "https://x"}},
    ],
)
def test_a_file_that_is_not_sent_counts_as_much_as_it_may_be(part: JsonValue) -> None:
    assert content_size({"content": [part]}, 300).tokens >= STORED_INPUT_TOKENS


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
        {"type": "input_image", "file_id": "f"},
        {"type": "image_url", "image_url": {"url": "https://x"}},
        {"parameters": {"properties": {"file_id": {"type": "string"}}}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
        {"input_audio": {"format": "wav", "data": "eA=="}},
        {"inlineData": {"mimeType": "image/png", "data": "eA=="}},
        {"functionResponse": {"response": {"data": "x"}}},
    ],
)
def test_an_image_that_is_not_sent_counts_as_an_image(part: JsonValue) -> None:
    assert content_size({"content": [part]}, 300).tokens <= 100 + TOKENS_PER_IMAGE
