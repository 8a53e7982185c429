"""Requests to a GraphQL server by number, and what becomes of each.

The same table is for the rules alone and for a whole proxy. The rule in force allows the root fields
`repository` and `viewer` of queries at /graphql.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

READ = "{viewer{login}}"
JSON_TYPE = "application/json"
ALLOWED = "rule.allowed"
BATCH = "graphql: {query: [repository, viewer], batch: 1}"
RULE = "graphql: {query: [repository, viewer]}"


def envelope(document: str, **more: object) -> bytes:
    return json.dumps({"query": document, **more}).encode()


def digest(text: str) -> dict[str, object]:
    return {"persistedQuery": {"version": 1, "sha256Hash": hashlib.sha256(text.encode()).hexdigest()}}


@dataclass(frozen=True)
class Vector:
    number: str
    body: bytes
    code: str = ALLOWED
    item: str = ""
    target: str = "/graphql"
    headers: tuple[tuple[str, str], ...] = (("content-type", JSON_TYPE),)
    rule: str = field(default=RULE)


def typed(media_type: str) -> tuple[tuple[str, str], ...]:
    return (("content-type", media_type),)


STORED = f"persisted {hashlib.sha256(READ.encode()).hexdigest()}"
DOUBLING = "{...F0}" + "".join(f" fragment F{n} on Q{{...F{n + 1} ...F{n + 1}}}" for n in range(20))
VECTORS = (
    Vector("1", envelope(READ)),
    Vector("2", envelope("{viewer:deleteX{a}}"), "graphql.field", "query.deleteX"),
    Vector("3", envelope("mutation{createRef(input:{}){ref{id}}}"), "graphql.field", "mutation.createRef"),
    Vector("4", envelope("#query\nmutation M{a}"), "graphql.field", "mutation.a"),
    Vector("5", envelope("query{...F} fragment F on Query{secret}"), "graphql.field", "query.secret"),
    Vector("6", envelope("{...on Query{...{...{secret}}}}"), "graphql.field", "query.secret"),
    Vector(
        "7",
        envelope("query A{viewer{login}} mutation B{x}", operationName="A"),
        "graphql.field",
        "mutation.x",
    ),
    Vector("8", envelope("query A{viewer{a}} query B{viewer{a}}"), "graphql.operation_name"),
    Vector("9", b'{"query":"{viewer{a}}","query":"mutation{x}"}', "json.duplicate_key"),
    Vector("10", b'{"query":"{viewer{a}}","\\u0071uery":"mutation{x}"}', "json.duplicate_key"),
    Vector("11", b"[" + envelope(READ) + b"]", "graphql.batch", "query.viewer"),
    Vector("11 with batch", b"[" + envelope(READ) + b"]", rule=BATCH),
    Vector(
        "11 twice", b"[%b,%b]" % (envelope(READ), envelope(READ)), "graphql.batch", "query.viewer", rule=BATCH
    ),
    Vector("12", envelope(READ), "graphql.url_parameters", target="/graphql?query=mutation{x}"),
    Vector("12 folded", envelope(READ), "graphql.url_parameters", target="/graphql?%51uery[]=mutation{x}"),
    Vector("13", json.dumps({"extensions": digest(READ)}).encode(), "graphql.persisted", STORED),
    Vector("14", envelope(READ, extensions=digest("{other}")), "graphql.persisted"),
    Vector("14 right", envelope(READ, extensions=digest(READ))),
    Vector("14 id", envelope(READ, id="abc"), "graphql.envelope"),
    Vector("15 cycle", envelope("{...F} fragment F on Query{...F}"), "graphql.document"),
    Vector("15 empty", envelope("{}"), "graphql.document"),
    Vector("15 empty inside", envelope("{viewer{}}"), "graphql.document"),
    Vector("15 types", envelope("type A{b:Int} {viewer{login}}"), "graphql.document"),
    Vector("16 levels", envelope("{viewer" * 400 + "}" * 400), "graphql.syntax"),
    Vector(
        "16 aliases", envelope("{" + " ".join(f"a{n}:viewer" for n in range(2000)) + "}"), "graphql.syntax"
    ),
    Vector("17", envelope("{__typename viewer{login}}")),
    Vector("17 schema", envelope("{__schema{types{name}}}"), "graphql.introspection", "query.__schema"),
    Vector("18", envelope(READ, operationName=1), "graphql.envelope"),
    Vector("18 absent", envelope(READ, operationName="B"), "graphql.operation_name"),
    Vector(
        "19",
        envelope("query($s:Boolean!){viewer{login} secret @skip(if:$s)}", variables={"s": True}),
        "graphql.field",
        "query.secret",
    ),
    Vector("20 text", envelope(READ), "body.type", headers=typed("text/plain")),
    Vector("20 form", b"query=%7Bviewer%7D", "body.type", headers=typed("application/x-www-form-urlencoded")),
    Vector("20 graphql", READ.encode(), "body.type", headers=typed("application/graphql")),
    Vector("20 multipart", envelope(READ), "body.type", headers=typed("multipart/form-data; boundary=x")),
    Vector("20 charset", envelope(READ), "body.type", headers=typed("application/json; charset=utf-7")),
    Vector("20 no type", envelope(READ), "body.type", headers=()),
    Vector("20 two types", envelope(READ), "body.type", headers=typed(JSON_TYPE) + typed("text/plain")),
    Vector("20 utf-8", envelope(READ), headers=typed('Application/JSON; charset="UTF-8"')),
    Vector("20 mark", b"\xef\xbb\xbf" + envelope(READ), "body.json"),
    Vector("20 NaN", envelope(READ, variables={"a": float("nan")}), "body.json"),
    Vector("27", envelope(DOUBLING + " fragment F20 on Q{viewer{a}}")),
    Vector("27 refused", envelope(DOUBLING + " fragment F20 on Q{x}"), "graphql.field", "query.x"),
)
