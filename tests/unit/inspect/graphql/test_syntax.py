"""Documents as a scope reads them: each kind of value, and what is refused because it stands twice."""

from __future__ import annotations

import pytest

from egress.inspect.graphql.document import read_document
from egress.inspect.graphql.syntax import (
    MAX_VALUE_DEPTH,
    BareWord,
    Field,
    Inline,
    Spread,
    Syntax,
    SyntaxReadingError,
    VariableUse,
    syntax_of,
)


def read(text: str) -> Syntax:
    parsed = read_document(text).parsed
    assert parsed is not None
    return syntax_of(parsed)


def test_a_document_is_read_with_all_its_parts() -> None:
    syntax = read(
        'query A($v:[ID!]="x",$w:Int){n:node(id:$v){...F ...on X{a} ...{b}}} fragment F on Y{z @skip(if:$w)}'
    )
    (operation,) = syntax.operations
    assert (operation.type, operation.variables) == ("query", {"v": "x"})
    inner = (Spread("F"), Inline("X", (Field("a", {}, ()),)), Inline("", (Field("b", {}, ()),)))
    assert operation.selections == (Field("node", {"id": VariableUse("v")}, inner),)
    assert syntax.fragments == {"F": Inline("Y", (Field("z", {}, ()),))}


def test_values_of_each_kind() -> None:
    (operation,) = read('{a(b:["s",null,true,E,1,1.5,{c:"\\u0041"}],d:"""x""")}').operations
    (field,) = operation.selections
    assert isinstance(field, Field)
    numbers = [BareWord("E"), BareWord("1"), BareWord("1.5")]
    assert field.arguments == {"b": ["s", None, True, *numbers, {"c": "A"}], "d": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "{a(b:1,b:2)}",
        "{a(b:{c:1,c:2})}",
        "query($v:Int,$v:Int){a}",
        "{a@other}",
        "query@other{a}",
        "query($v:Int@other){a}",
        "{...F} fragment F on X@other{a}",
        "{...@other{a}}",
        "{a(b:" + "[" * (MAX_VALUE_DEPTH + 2) + "]" * (MAX_VALUE_DEPTH + 2) + ")}",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(SyntaxReadingError):
        read(text)
