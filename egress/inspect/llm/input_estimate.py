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
STORED_INPUT_TOKENS: Final = 200_000
"""Tokens of an input that stands with the vendor, or is fetched by it: all that fits into most models."""
_MIN_BLOB_CHARS: Final = 1024
_BLOB_NAMES: Final = frozenset({"data", "bytes", "file_data"})
_TYPE_NAMES: Final = ("media_type", "mime_type", "mimeType", "format")
_IMAGE_FORMATS: Final = frozenset({"png", "jpeg", "jpg", "gif", "webp"})
_PLAIN_FORMATS: Final = frozenset(
    {"txt", "md", "csv", "html", "wav", "mp3", "flac", "ogg", "aac", "m4a", "opus", "pcm16"}
)
_PLAIN_TYPES: Final = ("image/", "text/", "audio/", "application/json")
"""Files that have no more tokens than their bytes say; pages and films may be packed much closer."""
_IMAGE_TYPES: Final = ("image", "image_url", "input_image")
_CALL_TYPES: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_CALL_NAMES: Final = frozenset({"toolUse", "functionCall", "function_call", "input_schema", "inputSchema"})
"""Fields with values of the model or of the client's tools, which the vendor does not act on."""
_ADDRESS_NAMES: Final = ("file_url", "fileUri", "file_uri", "s3Location")
_MEDIA_NAMES: Final = ("image_url", "video_url", "audio_url", "document_url")
"""Fields with an address, or with the data in the form of one."""
_FETCHING_NAMES: Final = frozenset({*_MEDIA_NAMES, *_ADDRESS_NAMES})
_FILE_NAME: Final = "file_id"
_CONTAINERS: Final = (dict, list)

_TELLING_NAMES: Final = frozenset(
    {
        "type",
        "source",
        "image",
        _FILE_NAME,
        *_MEDIA_NAMES,
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
    fetches = is_stored = False
    has_blobs = size >= _MIN_BLOB_CHARS
    for value, is_image in _telling_objects(document):
        images += _begins_image(value)
        is_fetched = _is_fetched(value)
        fetches = fetches or is_fetched
        # An image is never longer than its estimate; a file may fill the model.
        is_file = is_fetched or isinstance(value.get(_FILE_NAME), str) or _is_packed(value)
        is_stored = is_stored or (is_file and not is_image)
        for name, text in value.items() if has_blobs else ():
            if isinstance(text, str) and len(text) >= _MIN_BLOB_CHARS and _is_blob(name, text):
                blobs += len(text)
                if not is_image and not _states_image(value, text):
                    blob_tokens += len(text) // BYTES_PER_TOKEN
    text_tokens = -(-max(0, size - blobs) // BYTES_PER_TOKEN)
    stored_tokens = STORED_INPUT_TOKENS if is_stored else 0
    return ContentSize(text_tokens + blob_tokens + images * TOKENS_PER_IMAGE + stored_tokens, fetches)


def count_numbers(value: JsonValue) -> int:
    """Return how many numbers stand in lists: each is a token that the client has made."""
    if isinstance(value, list):
        return sum(map(count_numbers, value))
    return int(isinstance(value, int))


def _telling_objects(document: JsonValue) -> Iterator[tuple[dict[str, JsonValue], bool]]:
    """Yield each object that may count, and whether it is within an image.

    Those within calls of tools and within schemas do not count. The document itself is no call, whatever it
    says it is: its `input` is that of the request.
    """
    waiting: list[tuple[JsonValue, bool]] = [(document, False)]
    while waiting:
        value, is_image = waiting.pop()
        if isinstance(value, list):
            waiting += [(inner, is_image) for inner in value if isinstance(inner, _CONTAINERS)]
        elif isinstance(value, dict):
            is_call = False
            if not _TELLING_NAMES.isdisjoint(value):
                is_image = is_image or _begins_image(value)
                is_call = value is not document and value.get("type") in _CALL_TYPES
                yield value, is_image
            waiting += [
                (inner, is_image)
                for name, inner in value.items()
                if isinstance(inner, _CONTAINERS)
                and not (name in _CALL_NAMES or (is_call and name == "input"))
            ]


def _begins_image(value: dict[str, JsonValue]) -> bool:
    if value.get("type") in _IMAGE_TYPES or isinstance(value.get("image"), dict):
        return True
    inline = value.get("inlineData") or value.get("inline_data")
    return isinstance(inline, dict) and _states_image(inline, "")


def _is_blob(name: str, text: str) -> bool:
    # A prompt may begin like an address with data, and is none.
    return name in _BLOB_NAMES or ((name == "url" or name in _FETCHING_NAMES) and text.startswith("data:"))


def _is_packed(value: dict[str, JsonValue]) -> bool:
    """Tell whether a file is sent whose bytes say little about its tokens."""
    source = value.get("source")
    # Bedrock states the format beside the source, all others within it.
    holders = (value, source) if isinstance(source, dict) else (value,)
    texts = [text for each in holders for name in _BLOB_NAMES if isinstance(text := each.get(name), str)]
    if not texts:
        return False
    kinds = [kind for name in _TYPE_NAMES if isinstance(kind := value.get(name), str)]
    kinds += [text[len("data:") :] for text in texts if text.startswith("data:")]
    return any(
        not kind.startswith(_PLAIN_TYPES) and kind not in _IMAGE_FORMATS | _PLAIN_FORMATS for kind in kinds
    )


def _states_image(value: dict[str, JsonValue], text: str) -> bool:
    if text.startswith("data:image/"):
        return True
    kinds = [kind for name in _TYPE_NAMES if isinstance(kind := value.get(name), str)]
    return bool(kinds) and all(kind.startswith("image/") or kind in _IMAGE_FORMATS for kind in kinds)


def _is_fetched(value: dict[str, JsonValue]) -> bool:
    source = value.get("source")
    if isinstance(source, dict) and source.get("type") == "url":
        return True
    if _FETCHING_NAMES.isdisjoint(value):
        return False
    for name in _MEDIA_NAMES:
        media = value.get(name)
        address = media.get("url") if isinstance(media, dict) else media
        if isinstance(address, str) and not address.startswith("data:"):
            return True
    return any(value.get(name) is not None for name in _ADDRESS_NAMES)
