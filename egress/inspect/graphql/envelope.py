"""Reads GraphQL requests: the JSON around a document, or the parameters of a URL.

The names in an envelope are few and exact. A name more, such as `id`, lets some servers run a document that
is stored with them beside the one that was read here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

from egress.inspect.graphql.document import (
    MAX_DOCUMENT_BYTES,
    DocumentError,
    GraphqlDocument,
    OperationType,
    read_document,
)
from egress.inspect.graphql.github.reach import DocumentReach
from egress.inspect.inspector import Unreadable
from egress.inspect.strict_json import JsonValue, StrictJsonError, read_strict_json
from egress.request_name_folding import fold_parameter

ENVELOPE_NAMES: Final = frozenset({"query", "variables", "operationName", "extensions"})
STORED_DOCUMENT_NAMES: Final = frozenset({"id", "documentId", "queryId"})
_FOLDED_NAMES: Final = {fold_parameter(name) for name in ENVELOPE_NAMES | STORED_DOCUMENT_NAMES}
_PERSISTED_NAMES: Final = frozenset({"version", "sha256Hash"})
MAX_BATCH: Final = 64
"""No rule allows a longer one."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class RootField:
    """A root field of an operation."""

    type: OperationType
    name: str
    inner_fields: frozenset[str] = frozenset()
    """The names of all fields further down in the document."""
    batch: int = 0
    """The number of envelopes in the array; 0 without one."""
    is_get: bool = False
    reach: DocumentReach | None = field(default=None, compare=False, repr=False)
    """How far its document reaches at GitHub; None where the document is not at hand."""

    def __str__(self) -> str:
        return f"{self.type}.{self.name}"


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document of which the request has only the digest."""

    digest: str
    batch: int = 0
    is_get: bool = False

    def __str__(self) -> str:
        return f"persisted {self.digest}"


GraphqlItem = RootField | StoredDocument


class EnvelopeError(ValueError):
    """A request that cannot be judged."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.unreadable = Unreadable(code, detail)


def read_body(data: bytes) -> tuple[GraphqlItem, ...]:
    """Return what a body asks for. Raises `EnvelopeError`."""
    value = _json(data)
    if not isinstance(value, list):
        return tuple(_items(value))
    if not value:
        raise EnvelopeError("graphql.envelope", "the batch is empty")
    if len(value) > MAX_BATCH:
        raise EnvelopeError("graphql.batch", "the batch is too long")
    texts = [each.get("query") for each in value if isinstance(each, dict)]
    if sum(len(text) for text in texts if isinstance(text, str)) > MAX_DOCUMENT_BYTES:
        raise EnvelopeError("graphql.syntax", "the documents of the batch are too long")
    # Also those of one name: their documents differ in what they reach.
    return tuple(item for each in value for item in _items(each, batch=len(value)))


def read_url(query: str) -> tuple[GraphqlItem, ...]:
    """Return what the query of a URL asks for. Raises `EnvelopeError`."""
    found: dict[str, JsonValue] = {}
    for name, value in _parameters(query):
        if name not in ENVELOPE_NAMES or name in found:
            raise EnvelopeError("graphql.url_parameters", "a parameter is not of GraphQL, or there twice")
        found[name] = value
    for name in ("variables", "extensions"):
        if isinstance(text := found.get(name), str):
            found[name] = _json(text.encode("utf-8"))
    items = tuple(_items(found, is_get=True))
    if any(isinstance(item, RootField) and item.type != "query" for item in items):
        raise EnvelopeError("graphql.url_parameters", "a GET is for queries alone")
    return items


def refuse_url_parameters(query: str) -> None:
    """Refuse a URL with a name that some server takes in place of the body. Raises `EnvelopeError`."""
    for part in query.removeprefix("?").replace(";", "&").split("&"):
        name = unquote_to_bytes(part.partition("=")[0].replace("+", " ")).decode("latin-1")
        if fold_parameter(name) in _FOLDED_NAMES:
            raise EnvelopeError(
                "graphql.url_parameters", "the URL has a parameter of GraphQL beside the body"
            )


def _json(data: bytes) -> JsonValue:
    try:
        return read_strict_json(data)
    except StrictJsonError as error:
        raise EnvelopeError(error.code, error.detail) from None


def _parameters(query: str) -> Iterator[tuple[str, str]]:
    for part in query.removeprefix("?").split("&"):
        name, _, value = part.partition("=")
        try:
            yield _decoded(name), _decoded(value)
        except UnicodeDecodeError:
            raise EnvelopeError("graphql.url_parameters", "a parameter is not UTF-8") from None


def _decoded(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ").encode("latin-1")).decode("utf-8")


def _items(value: JsonValue, *, batch: int = 0, is_get: bool = False) -> Iterator[GraphqlItem]:
    if not isinstance(value, dict) or not value.keys() <= ENVELOPE_NAMES:
        raise EnvelopeError("graphql.envelope", "it is not an object with the four names of GraphQL alone")
    if not isinstance(value.get("variables"), dict | None):
        raise EnvelopeError("graphql.envelope", "`variables` is not an object")
    name = value.get("operationName")
    if not isinstance(name, str | None):
        raise EnvelopeError("graphql.envelope", "`operationName` is not a text")
    digest = _digest(value.get("extensions"))
    if "query" not in value:
        if not digest:
            raise EnvelopeError("graphql.envelope", "`query` is missing")
        yield StoredDocument(digest, batch, is_get)
        return
    text = value["query"]
    if not isinstance(text, str):
        raise EnvelopeError("graphql.envelope", "`query` is not a text")
    if digest and digest != hashlib.sha256(text.encode("utf-8")).hexdigest():
        raise EnvelopeError("graphql.persisted", "the digest is that of another document")
    document = _document(text, name or "")
    # Operations may have fields in common, by a fragment: each is judged once.
    fields = {(operation.type, each): None for operation in document.operations for each in operation.fields}
    variables = value.get("variables")
    given = variables if isinstance(variables, dict) else {}
    reach = None if document.parsed is None else DocumentReach(document.parsed, given)
    for kind, each in fields:
        yield RootField(kind, each, document.inner_fields, batch, is_get, reach)


def _document(text: str, name: str) -> GraphqlDocument:
    try:
        document = read_document(text)
    except DocumentError as error:
        raise EnvelopeError(error.code, error.detail) from None
    names = [operation.name for operation in document.operations]
    if name not in names if name else len(names) > 1:
        raise EnvelopeError("graphql.operation_name", "`operationName` does not name an operation")
    return document


def _digest(extensions: JsonValue) -> str:
    """Return the digest of a stored document; empty for none."""
    if extensions is None or extensions == {}:
        return ""
    if not isinstance(extensions, dict) or extensions.keys() != {"persistedQuery"}:
        raise EnvelopeError("graphql.envelope", "`extensions` has more than `persistedQuery`")
    stored = extensions["persistedQuery"]
    if not isinstance(stored, Mapping) or not stored.keys() <= _PERSISTED_NAMES:
        raise EnvelopeError("graphql.envelope", "`persistedQuery` has more than version and digest")
    digest = stored.get("sha256Hash")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise EnvelopeError("graphql.persisted", "the digest is not a SHA-256 in lower case")
    return digest
