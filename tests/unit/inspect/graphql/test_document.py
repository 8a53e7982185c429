"""Documents: the root fields of every operation, whatever stands around them, and bounds on what it costs."""

from __future__ import annotations

import sys

import pytest

from egress.inspect.graphql.document import MAX_DOCUMENT_BYTES, DocumentError, load_parser, read_document


def fields(text: str) -> list[str]:
    return [f"{each.type}.{name}" for each in read_document(text).operations for name in each.fields]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{a b:c a}", ["query.a", "query.c"]),
        ("query Q{a} mutation M{b}", ["query.a", "mutation.b"]),
        ("subscription{a}", ["subscription.a"]),
        ("{...F ...F} fragment F on Q{a ...G} fragment G on Q{b}", ["query.a", "query.b"]),
        ("{... @include(if:false){a} b @skip(if:true)}", ["query.b", "query.a"]),
        ("fragment F on Q{c} query{...F}", ["query.c"]),
        ('# mutation{x}\n,,, {a(b: "mutation{y}") {z}}', ["query.a"]),
        ('{a(b: """{x} \\""" {y}""")}', ["query.a"]),
        ("query Q($v: [ID!]! = [1], $w: I = {a: 1}){a(x: $v, y: {z: $w})}", ["query.a"]),
        ("query{query}", ["query.query"]),
        ("{a} fragment Unused on Q{secret}", ["query.a"]),
    ],
)
def test_the_root_fields_of_a_document(text: str, found: list[str]) -> None:
    assert fields(text) == found


def test_inner_fields_are_those_below_root_fields() -> None:
    text = "{a{b ...F ...{c}} ...G} fragment F on T{d{e}} fragment G on Q{f{g}}"
    document = read_document(text)
    assert set(document.operations[0].fields) == {"a", "f"}
    # Those of a fragment count where it stands.
    assert document.inner_fields == {"b", "c", "d", "e", "g"}


@pytest.mark.parametrize(
    "text",
    [
        "fragment F on Q{a}",
        "{}",
        "{a{}}",
        "{...F}",
        "{a{...F}}",
        "{...F} fragment F on Q{...G} fragment G on Q{...F}",
        "{a} fragment F on Q{b{...F}}",
        "{a} {b}",
        "{a} query A{b}",
        "query A{a} query A{b}",
        "{...F} fragment F on Q{a} fragment F on Q{b}",
        "schema{query: Q} {a}",
        "extend type Q{a: I} {a}",
        '"text" query A{a}',
    ],
)
def test_a_document_that_servers_read_differently_is_refused(text: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_document(text)
    assert caught.value.code == "graphql.document"


@pytest.mark.parametrize(
    "text",
    ["", "{", "{a", "query", "{a(}", "{a: }", "{...on}", "{a\x00}", "fragment on on Q{a}", '{a(b:"\n")}',
     "{a" * 101 + "}" * 101, "{a" * 30_000, "{" + "a " * 4001 + "}", "{a(b:" + "[" * 3000 + ")}",
     "{a}" + "," * MAX_DOCUMENT_BYTES,
     "".join(f"query q{number}{{...f}}" for number in range(33)) + "fragment f on Q{a}",
     # Texts that never end are looked at once, not from each of their quotes: that would take seconds.
     '{a(b:"' + '\\"' * 32_000, '{a(b:"""\n' + '\\"""\n' * 13_000],
)  # fmt: skip
def test_a_text_that_is_no_document_or_too_large_is_refused(text: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_document(text)
    assert caught.value.code == "graphql.syntax"


def test_names_do_not_nest_deeper_than_the_bound() -> None:
    assert fields("{a" * 100 + "}" * 100) == ["query.a"]


def test_the_parser_is_loaded_before_the_first_request() -> None:
    load_parser()
    assert "graphql.language.parser" in sys.modules
