"""How many tokens a request has, estimated from its bytes; and whether its contents name addresses.

The estimate is there to reserve a part of a budget before the call, so in doubt it is high. The answer
replaces it by the number of the vendor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from egress.inspect.strict_json import JsonValue
from egress.types import value_class

BYTES_PER_TOKEN: Final = 3
TOKENS_PER_IMAGE: Final = 1600
_MIN_BLOB_CHARS: Final = 1024
_BLOB_NAMES: Final = frozenset({"data", "bytes", "file_data"})
_TYPE_NAMES: Final = ("media_type", "mime_type", "mimeType", "format")
_IMAGE_FORMATS: Final = frozenset({"png", "jpeg", "jpg", "gif", "webp"})
_IMAGE_TYPES: Final = ("image", "image_url", "input_image")
_CALL_TYPES: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_CALL_NAMES: Final = frozenset({"toolUse", "functionCall", "function_call", "input_schema", "inputSchema"})
"""Fields with values of the model or of the client's tools, which the vendor does not act on."""
_ADDRESS_NAMES: Final = ("file_url", "fileUri", "file_uri", "s3Location")

_TELLING_NAMES: Final = frozenset(
    {
        "type",
        "source",
        "image",
        "image_url",
        "inlineData",
        "inline_data",
        *_BLOB_NAMES,
        *_ADDRESS_NAMES,
        "url",
    }
)
"""An object without any of these is no part of the contents that counts otherwise than as text."""


@value_class
class ContentSize:
    """The size of the contents of a request."""

    tokens: int
    fetches: bool
    """Some part of it is an address from which the vendor fetches."""


def content_size(document: JsonValue, size: int) -> ContentSize:
    """Estimate the contents of a body of so many bytes."""
    images = blobs = blob_tokens = 0
    fetches = False
    has_blobs = size >= _MIN_BLOB_CHARS
    for value, is_image in _objects(document):
        if _TELLING_NAMES.isdisjoint(value):
            continue
        images += _begins_image(value)
        fetches = fetches or _is_fetched(value)
        for name, text in value.items() if has_blobs else ():
            if isinstance(text, str) and len(text) >= _MIN_BLOB_CHARS and _is_blob(name, text):
                blobs += len(text)
                if not is_image and not _states_image(value, text):
                    blob_tokens += len(text) // BYTES_PER_TOKEN
    text_tokens = -(-max(0, size - blobs) // BYTES_PER_TOKEN)
    return ContentSize(text_tokens + blob_tokens + images * TOKENS_PER_IMAGE, fetches)


def count_numbers(value: JsonValue) -> int:
    """Return how many numbers stand in lists: each is a token that the client has made."""
    if isinstance(value, list):
        return sum(map(count_numbers, value))
    return int(isinstance(value, int))


def _objects(document: JsonValue) -> Iterator[tuple[dict[str, JsonValue], bool]]:
    """Yield every object, and whether it is within an image; not those within calls of tools and schemas."""
    waiting: list[tuple[JsonValue, bool]] = [(document, False)]
    while waiting:
        value, is_image = waiting.pop()
        if isinstance(value, list):
            waiting += [(inner, is_image) for inner in value]
        elif isinstance(value, dict):
            is_telling = not _TELLING_NAMES.isdisjoint(value)
            is_image = is_image or (is_telling and _begins_image(value))
            yield value, is_image
            is_call = is_telling and value.get("type") in _CALL_TYPES
            waiting += [
                (inner, is_image)
                for name, inner in value.items()
                if not (name in _CALL_NAMES or (is_call and name == "input"))
            ]


def _begins_image(value: dict[str, JsonValue]) -> bool:
    if value.get("type") in _IMAGE_TYPES or isinstance(value.get("image"), dict):
        return True
    inline = value.get("inlineData") or value.get("inline_data")
    return isinstance(inline, dict) and _states_image(inline, "")


def _is_blob(name: str, text: str) -> bool:
    return name in _BLOB_NAMES or text.startswith("data:")


def _states_image(value: dict[str, JsonValue], text: str) -> bool:
    if text.startswith("data:image/"):
        return True
    kinds = [kind for name in _TYPE_NAMES if isinstance(kind := value.get(name), str)]
    return bool(kinds) and all(kind.startswith("image/") or kind in _IMAGE_FORMATS for kind in kinds)


def _is_fetched(value: dict[str, JsonValue]) -> bool:
    source = value.get("source")
    if isinstance(source, dict) and source.get("type") == "url":
        return True
    image = value.get("image_url")
    address = image.get("url") if isinstance(image, dict) else image
    if isinstance(address, str) and not address.startswith("data:"):
        return True
    return any(value.get(name) is not None for name in _ADDRESS_NAMES)
