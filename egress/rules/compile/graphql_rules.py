"""Compile the predicate `graphql` of a rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from egress.inspect.graphql.document import OPERATION_TYPES, OperationType
from egress.rules.compile.graphql_scope import github_scope
from egress.rules.decide.github_scope import GithubScope
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.graphql_predicate import ANY_FIELD, GraphqlPredicate
from egress.rules.language.body_models import GraphqlAllow, GraphqlFields, StoredFields
from egress.rules.language.report import DocumentCursor, quoted

_FIELD_GLOB: Final = re.compile(r"[_A-Za-z*][_0-9A-Za-z*]{0,127}")
_FIELD: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]{0,127}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def graphql_predicate(model: GraphqlFields, at: DocumentCursor) -> GraphqlPredicate:
    """Compile the predicate at `at`; report its mistakes."""
    types = tuple(
        (kind, _globs(written, at / kind))
        for kind in OPERATION_TYPES
        if (written := getattr(model, kind)) is not None
    )
    if not types:
        at.error("`graphql` needs an operation type", "name root fields, as in `query: [viewer]`")
    if not isinstance(model, GraphqlAllow):
        return GraphqlPredicate(types)
    return GraphqlPredicate(
        types,
        batch=model.batch or 0,
        introspection=model.introspection,
        get=model.get,
        persisted=tuple(
            (digest, _stored(digest, fields, at / "persisted" / digest))
            for digest, fields in (model.persisted or {}).items()
        ),
        no_fields=tuple(model.no_fields or ()) if _are_names(model.no_fields or (), at / "no_fields") else (),
        scope=_scope(model, at),
    )


def _scope(model: GraphqlAllow, at: DocumentCursor) -> GithubScope | None:
    exempt = model.scope_exempt or ()
    if model.scope is None:
        if model.scope_exempt is not None:
            (at / "scope_exempt").key_error("`scope_exempt` needs `scope`", "remove it")
        return None
    if model.persisted:
        # Their text is not in the request, so nobody could say what they reach.
        (at / "persisted").key_error(
            "`persisted` cannot be combined with `scope`", "give stored documents a rule of their own"
        )
    _are_names(exempt, at / "scope_exempt")
    return github_scope(model.scope, tuple(exempt), at / "scope")


def graphql_texts(model: GraphqlAllow | None) -> tuple[str, ...]:
    """Return the texts in which placeholders may stand."""
    return () if model is None or model.scope is None else tuple(model.scope.github)


def _globs(written: str | Sequence[str], at: DocumentCursor) -> tuple[ValueGlob, ...]:
    if isinstance(written, str):
        return (ANY_FIELD,)
    if not written:
        at.error("an empty list matches nothing", "remove the key, or write `any`")
    for number, text in enumerate(written):
        here = at / number
        if not _FIELD_GLOB.fullmatch(text):
            here.error(f"{quoted(text)} is not the name of a root field", "write it as in `viewer` or `get*`")
        elif text.startswith("__"):
            here.error(f"{quoted(text)} cannot be listed", "write `introspection: true`")
    return tuple(ValueGlob(text) for text in written)


def _stored(digest: str, model: StoredFields, at: DocumentCursor) -> tuple[tuple[OperationType, str], ...]:
    if not _DIGEST.fullmatch(digest):
        at.key_error("this is not the digest of a document", "write its SHA-256, 64 digits in lower case")
    made: list[tuple[OperationType, str]] = []
    for kind in OPERATION_TYPES:
        names = getattr(model, kind) or ()
        _are_names(names, at / kind)
        made += [(kind, name) for name in names]
    if not made:
        at.error("a stored document has root fields", "name them, as in `query: [viewer]`")
    return tuple(made)


def _are_names(names: Sequence[str], at: DocumentCursor) -> bool:
    wrong = [number for number, name in enumerate(names) if not _FIELD.fullmatch(name)]
    for number in wrong:
        (at / number).error(
            f"{quoted(names[number])} is not the name of a field", "write it without wildcards"
        )
    return not wrong
