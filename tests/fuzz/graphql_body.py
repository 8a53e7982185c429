"""GraphQL requests for the fuzzer: made right, then damaged, and compared with a lenient server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    OperationDefinitionNode,
    SelectionSetNode,
)
from graphql import parse as parsed

from egress.inspect.graphql.graphql_kind import read_graphql
from egress.inspect.inspector import Facts, Unreadable
from egress.inspect.whole_body import WholeBody
from tests.faults.seeded_random import SeededRandom
from tests.fuzz import mutate
from tests.fuzz.sample import Sample

_PARTS: Final = (
    "query", "mutation", "subscription", "fragment F on Q", "...F", "... on Q", "{", "}", "{", "}",
    "(a: $v)", ":", "viewer", "repository", "deleteX", "__typename", "@skip(if: true)", "# }\n", ",",
    '"""', '"x"', "...", " A", " B",
)  # fmt: skip
_DOCUMENTS: Final = (
    "{viewer{login}}", "query A{viewer{a}} mutation B{deleteX}", "{...F} fragment F on Q{viewer{a} ...{b}}",
    "query($v: I = 1){a: repository(o: $v){id}}", "subscription{s}", "{a{b{c{...F}}}} fragment F on T{d}",
)  # fmt: skip
_SPARE_NAMES: Final = (
    '"query":"mutation{x}"',
    '"id":"x"',
    '"operationName":"B"',
    '"extensions":{}',
    '"variables":{"v":1.5}',
)


def make_graphql(chance: SeededRandom) -> Sample:
    """An envelope, sometimes with a name too many, sometimes in an array, sometimes scratched."""
    document = chance.one_of(_DOCUMENTS)
    if chance.randrange(2):
        words = mutate.rows(chance, [*document.partition("{")], _PARTS, chance.randrange(4))
        document = "".join(words)
    members = [f'"query":{json.dumps(document)}']
    members += chance.sample(_SPARE_NAMES, chance.one_of((0, 0, 1, 2)))
    text = "{" + ",".join(members) + "}"
    data = (f"[{text},{text}]" if chance.randrange(8) == 0 else text).encode()
    if chance.randrange(3) == 0:
        data = mutate.scratch(chance, data, chance.one_of((1, 1, 3)))
    return Sample("graphql.body", mutate.cut(chance, data))


def check_graphql(sample: Sample) -> None:
    """However it is cut it says the same, and no server finds a root field that is not among the facts."""
    data = b"".join(sample.client)
    found = _read((data,))
    assert _read(sample.client) == found, "how it is cut changes what is read"
    if isinstance(found, Unreadable):
        return
    told = {str(item) for item in found.items}
    value = json.loads(data)
    for each in value if isinstance(value, list) else [value]:
        if "query" in each:
            assert set(_root_fields(each["query"])) <= told, "a root field is missing"


def _read(pieces: tuple[bytes, ...]) -> Facts | Unreadable:
    inspector = WholeBody(read_graphql)
    for piece in pieces:
        inspector.feed(piece)
    return inspector.end()


def _root_fields(text: str) -> Iterator[str]:
    document = parsed(text)
    fragments = {
        each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)
    }
    for each in document.definitions:
        if isinstance(each, OperationDefinitionNode):
            for name in _fields(each.selection_set, fragments):
                yield f"{each.operation.value}.{name}"


def _fields(selected: SelectionSetNode, fragments: dict[str, FragmentDefinitionNode]) -> Iterator[str]:
    for each in selected.selections:
        if isinstance(each, FieldNode):
            yield each.name.value
        elif isinstance(each, FragmentSpreadNode):
            yield from _fields(fragments[each.name.value].selection_set, fragments)
        else:
            yield from _fields(each.selection_set, fragments)  # type: ignore[attr-defined]
