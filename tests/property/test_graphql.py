"""GraphQL documents and envelopes against a generator that knows the root fields, and against any bytes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from egress.errors import CODES
from egress.inspect.graphql.document import DocumentError, read_document
from egress.inspect.graphql.envelope import EnvelopeError, read_body, read_url

NAMES = st.sampled_from(
    ["viewer", "repository", "deleteX", "a1", "_b", "query", "mutation", "on_", "fragment"]
)
NOISE = st.sampled_from(["", " ", "\n", ",", "# {x}\n", "\ufeff"])
ARGUMENTS = st.sampled_from(
    ["", '(a: "{x}")', "(a: 1, b: [{c: $v}])", '(a: """ } """)', "(a: null, b: ENUM)"]
)
DIRECTIVES = st.sampled_from(["", " @skip(if: true)", " @include(if: $no)", " @other"])


@st.composite
def selections(draw: st.DrawFn, depth: int, roots: set[str] | None) -> str:
    """A selection; names that are root fields of it go into `roots`."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        noise = draw(NOISE)
        if depth and draw(st.booleans()):
            kind = draw(st.sampled_from(["...", "... on Query"]))
            parts.append(f"{kind}{draw(DIRECTIVES)}{noise}{draw(selections(depth - 1, roots))}")
            continue
        name = draw(NAMES)
        if roots is not None:
            roots.add(name)
        alias = f"{draw(NAMES)}:{noise}" if draw(st.booleans()) else ""
        inner = draw(selections(depth - 1, None)) if depth and draw(st.booleans()) else ""
        parts.append(f"{alias}{name}{draw(ARGUMENTS)}{draw(DIRECTIVES)}{noise}{inner}")
    return "{" + " ".join(parts) + "}"


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, set[str]]:
    found: set[str] = set()
    texts = []
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["query", "mutation", "subscription"]))
        roots: set[str] = set()
        text = draw(selections(3, roots))
        if draw(st.booleans()):
            inner = draw(selections(2, roots))
            texts.append(f"fragment F{number} on Q{draw(NOISE)}{inner}")
            text = "{" + f"...F{number} {text[1:]}"
        texts.append(f"{kind} O{number}{draw(DIRECTIVES)}{text}")
        found |= {f"{kind}.{name}" for name in roots}
    return draw(NOISE).join(draw(st.permutations(texts))), found


@given(documents())
def test_root_fields_are_found_however_they_are_written(document: tuple[str, set[str]]) -> None:
    text, expected = document
    found = read_document(text)
    assert {f"{each.type}.{name}" for each in found.operations for name in each.fields} == expected


@given(documents(), st.booleans())
def test_an_envelope_has_the_fields_of_its_document(document: tuple[str, set[str]], is_ascii: bool) -> None:
    text, expected = document
    names = [each.name for each in read_document(text).operations]
    body = json.dumps({"query": text, "operationName": names[0]}, ensure_ascii=is_ascii).encode()
    assert {str(item) for item in read_body(body)} == expected


def code_of_text(text: str) -> str:
    try:
        read_document(text)
    except DocumentError as error:
        return error.code
    return ""


def code_of_body(data: bytes) -> str:
    try:
        read_body(data)
    except EnvelopeError as error:
        return error.unreadable.code
    return ""


def code_of_url(query: str) -> str:
    try:
        read_url(query)
    except EnvelopeError as error:
        return error.unreadable.code
    return ""


ODD = st.text('{}()[]:=@$!|&."#,\n \\ querymutationfragmentonabc0-…\ud7ff', max_size=60)


@given(ODD | documents().map(lambda made: made[0][1:]))
def test_any_text_has_root_fields_or_a_code(text: str) -> None:
    assert code_of_text(text) in {"", "graphql.syntax", "graphql.document"}


@given(st.binary(max_size=60) | ODD.map(lambda text: json.dumps({"query": text}).encode()))
def test_any_body_has_items_or_a_code(data: bytes) -> None:
    assert code_of_body(data) in {"", *CODES}


@given(
    st.text(st.characters(max_codepoint=255), max_size=60)
    | ODD.map(lambda text: "query=" + text.encode("utf-8").decode("latin-1"))
)
def test_any_url_has_items_or_a_code(query: str) -> None:
    assert code_of_url(f"?{query}") in {"", *CODES}
