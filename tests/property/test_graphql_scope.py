"""Scopes against a generator that knows which repositories a document names, and ids in any spelling."""

from __future__ import annotations

import base64
import json
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from egress.errors import CODES
from egress.inspect.graphql.document import DocumentError, read_document
from egress.inspect.graphql.github.node_id import NodeId, NodeIdError, Part, read_node_id, write_node_id
from egress.inspect.graphql.github.reach import DocumentReach
from egress.types import Decision
from tests.unit.inspect.graphql.scope_vectors import FOREIGN_NUMBER, HOME_NUMBER, SCOPED
from tests.unit.rules.decide.test_graphql_predicate import ask, policy_of

POLICY: Final = policy_of(SCOPED)
OUTSIDE_NAMES: Final = (
    ("evil", "app"),
    ("acme", "other"),
    ("acme", "app-2"),
    ("acm", "e/app"),
    ("ACME", "APP."),
)
INSIDE_NAMES: Final = (("acme", "app"), ("ACME", "App"), ("acme", "docs"))
PREFIXES: Final = ("I", "PR", "LA", "IC", "PRRC")


@st.composite
def roots(draw: st.DrawFn, number: int, *, inside: bool, given: dict[str, object]) -> tuple[str, str, str]:
    """A root field about a repository: its text, its variables, and its operation type."""
    kind = draw(st.sampled_from(["named", "node", "nodes", "mutation"]))
    if kind == "named":
        owner, name = draw(st.sampled_from(INSIDE_NAMES if inside else OUTSIDE_NAMES))
        one, declared_one = draw(values(f"o{number}", owner, "String!", given))
        two, declared_two = draw(values(f"n{number}", name, "String!", given))
        field = f"repository(owner:{one},name:{two}){{id issues(first:1){{nodes{{title}}}}}}"
        return field, declared_one + declared_two, "query"
    repository = HOME_NUMBER if inside else draw(st.sampled_from([FOREIGN_NUMBER, 1, HOME_NUMBER + 1]))
    text = write_node_id(draw(st.sampled_from(PREFIXES)), (0, repository, draw(st.integers(0, 2**40))))
    value, declared = draw(values(f"i{number}", text, "ID!", given))
    match kind:
        case "node":
            return f"node(id:{value}){{id}}", declared, "query"
        case "nodes":
            return f"nodes(ids:{value if value.startswith('$') else f'[{value}]'}){{id}}", declared, "query"
        case _:
            return (
                f'addComment(input:{{body:"x",subjectId:{value}}}){{clientMutationId}}',
                declared,
                "mutation",
            )


@st.composite
def values(draw: st.DrawFn, name: str, text: str, kind: str, given: dict[str, object]) -> tuple[str, str]:
    """A text in the document, in a variable, or in the default of one; and what declares the variable."""
    match draw(st.sampled_from(["text", "block", "variable", "default"])):
        case "text":
            escaped = "".join(f"\\u{ord(char):04x}" if draw(st.booleans()) else char for char in text)
            return f'"{escaped}"', ""
        case "block":
            return f'"""{text}"""', ""
        case "variable":
            given[name] = text
            return f"${name}", f"${name}:{kind}"
        case _:
            return f"${name}", f'${name}:{kind}="{text}"'


@st.composite
def requests(draw: st.DrawFn, *, inside: bool) -> bytes:
    """A request whose every root field is about a repository inside the scope, or about one outside."""
    given: dict[str, object] = {}
    made = [draw(roots(number, inside=inside, given=given)) for number in range(draw(st.integers(1, 3)))]
    kind = draw(st.sampled_from(sorted({each[2] for each in made})))
    fields, fragments = [], []
    for number, (text, _, each) in enumerate(made):
        if each != kind:
            continue
        shown = f"a{number}:{text}" if draw(st.booleans()) or len(made) > 1 else text
        match draw(st.sampled_from(["plain", "inline", "fragment", "skipped"])):
            case "inline":
                shown = f"...on {kind.title()}{{{shown}}}"
            case "fragment":
                fragments.append(f" fragment F{number} on {kind.title()}{{{shown}}}")
                shown = f"...F{number}"
            case "skipped":
                shown = f"...@skip(if:true){{{shown}}}"
        fields.append(shown)
    declared = "".join(each[1] for each in made)
    document = f"{kind} Q{f'({declared})' if declared else ''}{{{' '.join(fields)}}}{''.join(fragments)}"
    return json.dumps({"query": document, "variables": given}).encode()


def decided(body: bytes) -> Decision:
    return ask(POLICY, body)


@given(requests(inside=False))
def test_no_document_whose_every_root_is_outside_is_allowed(body: bytes) -> None:
    decision = decided(body)
    assert not decision.allowed
    assert decision.code == "graphql.scope", decision.item


@given(requests(inside=True))
def test_a_document_whose_every_root_is_inside_is_allowed(body: bytes) -> None:
    assert decided(body).allowed, decided(body).item


def known(text: str) -> NodeId | None:
    """What an id says; None where it is refused with a listed code."""
    code = "graphql.node_id"
    try:
        return read_node_id(text)
    except NodeIdError as error:
        code = error.code
    assert code in CODES
    return None


PARTS: Final = st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=100))


@given(st.sampled_from(["R", "I", "U", "PVT"]), st.lists(PARTS, min_size=2, max_size=4))
def test_what_is_read_has_one_spelling(prefix: str, parts: list[Part]) -> None:
    text = write_node_id(prefix, tuple(parts))
    if (found := known(text)) is None:
        return
    assert parts[0] == 0
    assert found.repository in (parts[1], 0)


@given(st.text(alphabet="RIU_kgDOwABPHjQE=-+/ \n0", max_size=24))
def test_any_text_is_an_id_in_its_one_spelling_or_none(text: str) -> None:
    if (found := known(text)) is None:
        return
    prefix, _, packed = text.partition("_")
    data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    assert found.prefix == prefix
    assert base64.urlsafe_b64encode(data).rstrip(b"=").decode() == packed


@given(st.text(alphabet='{}()[]:$".!abRQn_ ,@|&=1\n#', max_size=60))
def test_any_document_has_a_reach_or_a_listed_fault(text: str) -> None:
    try:
        parsed = read_document(text).parsed
    except DocumentError:
        return
    assert parsed is not None
    for kind in ("query", "mutation", "subscription"):
        for name in ("a", "repository"):
            found = DocumentReach(parsed, {"a": [{"b": None}]}).of(kind, name)
            assert found.code == "" or found.code in CODES
