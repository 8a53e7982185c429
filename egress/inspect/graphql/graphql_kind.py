"""GraphQL as a kind of body."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from egress.inspect.graphql.document import OPERATION_TYPES
from egress.inspect.graphql.envelope import (
    EnvelopeError,
    GraphqlItem,
    RootField,
    StoredDocument,
    read_body,
    read_url,
    refuse_url_parameters,
)
from egress.inspect.inspector import (
    Facts,
    FactValue,
    Inspector,
    Refusal,
    RefusalAnswer,
    Unreadable,
    fact_text,
)
from egress.inspect.whole_body import NoBody, WholeBody
from egress.types import Head

MAX_GRAPHQL_BYTES: Final = 256 * 1024


class GraphqlKind:
    """GraphQL over HTTP, by POST, and by GET where a rule says so."""

    name = "graphql"
    methods = frozenset({"POST", "GET"})
    max_held_bytes = MAX_GRAPHQL_BYTES
    media_types = frozenset({"application/json"})
    codings = frozenset[str]()

    def begin(self, head: Head) -> Inspector | Facts | Unreadable:
        query = head.target.partition("?")[2]
        try:
            if head.method == "GET":
                facts = graphql_facts(read_url(query), 0)
                return NoBody(facts, Unreadable("graphql.url_parameters", "a GET has a body"))
            if query:
                refuse_url_parameters(query)
        except EnvelopeError as error:
            return error.unreadable
        return WholeBody(read_graphql)

    def answer(self, refusal: Refusal, found: Facts | Unreadable | None) -> RefusalAnswer:
        del found
        message = refusal.sentence
        extensions = {"code": refusal.code, "hint": refusal.hint, "rule": refusal.rule}
        error = {"message": message, "extensions": {name: text for name, text in extensions.items() if text}}
        # The message stands above as well, where `gh` looks for it in an answer that is no success.
        body = json.dumps({"message": message, "errors": [error]}, indent=2).encode() + b"\n"
        return RefusalAnswer(403, "application/json", body)

    def recall(self, log: Mapping[str, FactValue]) -> Facts | None:
        """Return the facts behind findings in the log; None where some are missing or were cut."""
        items: list[GraphqlItem] = []
        batch = log.get("graphql_batch", 0)
        if not isinstance(batch, int):
            return None
        for kind in OPERATION_TYPES:
            names = log.get(f"graphql_{kind}", "")
            if not isinstance(names, str) or names.endswith("…"):
                return None
            items += [RootField(kind, name, batch=batch) for name in names.split()]
        stored = log.get("graphql_persisted", "")
        if isinstance(stored, str) and stored:
            items += [StoredDocument(digest, batch) for digest in stored.split()]
        return Facts(tuple(items), log) if items else None


def read_graphql(data: bytes) -> Facts | Unreadable:
    """Read the body of a POST."""
    try:
        return graphql_facts(read_body(data), len(data))
    except EnvelopeError as error:
        return error.unreadable


def graphql_facts(items: Iterable[GraphqlItem], read: int) -> Facts:
    """Return the facts of a request that asks for these."""
    items = tuple(items)
    log: dict[str, FactValue] = {}
    for kind in OPERATION_TYPES:
        names = [each.name for each in items if isinstance(each, RootField) and each.type == kind]
        if names:
            log[f"graphql_{kind}"] = fact_text(" ".join(dict.fromkeys(names)))
    if stored := [each.digest for each in items if isinstance(each, StoredDocument)]:
        log["graphql_persisted"] = fact_text(" ".join(stored))
    if batch := max((each.batch for each in items), default=0):
        log["graphql_batch"] = batch
    return Facts(items, log, read)
