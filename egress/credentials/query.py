"""Write a credential as the only value of a query parameter.

The query is split at `&`; names are compared percent-decoded, with `+` as space, and folded as the most
lenient server reads them. The other parameters keep their order and their bytes. Some servers also split at
`;`: if that would reveal a second parameter of our name, the request has two readings and is refused. So has
a query of very many parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, unquote

from egress.credentials.result import CredentialRefusal, HeadEdit
from egress.request_name_folding import MAX_PARTS, fold_parameter
from egress.types import Headers, InjectQuery, Slot


def write_query(
    target: str, headers: Headers, need: InjectQuery, value: bytes
) -> HeadEdit | CredentialRefusal:
    """Replace every parameter of the name by a single one, at the end, with the value percent-encoded."""
    if not has_query(target):
        return _unplaceable(need, "The target of the request cannot carry a query parameter.")
    path, _, query = target.partition("?")
    sent = query.split("&") if query else []
    kept = other_parameters(query, need.name)
    if kept is None:
        return _unplaceable(
            need, "Servers read this query in different ways: it has a `;`, or very many parts."
        )
    ours = f"{quote(need.name.encode('utf-8', 'replace'), safe='')}={quote(value, safe='')}"
    return HeadEdit(f"{path}?{'&'.join([*kept, ours])}", headers, len(kept) != len(sent))


def other_parameters(query: str, name: str) -> list[str] | None:
    """Return the pieces of a query without those of a name; None if the query has two readings."""
    if query.count("&") + query.count(";") >= MAX_PARTS:
        return None
    folded = fold_parameter(wire_name(name))
    sent = query.split("&") if query else []
    kept = [piece for piece in sent if fold_parameter(parameter_name(piece)) != folded]
    # Refuse rather than guess which of two parameters the server reads.
    if ";" in query and any(
        fold_parameter(inner) == folded for piece in kept for inner in _inner_names(piece)
    ):
        return None
    return kept


def has_query(target: str) -> bool:
    """Report whether the target can carry a query: origin form, without a fragment."""
    return target.startswith("/") and "#" not in target


def parameter_name(piece: str) -> str:
    """Return the name of a `name=value` piece, one character a byte."""
    raw = piece.partition("=")[0]
    if "%" not in raw and "+" not in raw:
        return raw
    return unquote(raw.replace("+", " "), "latin-1")


def wire_name(name: str) -> str:
    """Spell a name of the rules as it arrives from the wire, one character a byte."""
    return name.encode("utf-8", "replace").decode("latin-1")


def _inner_names(piece: str) -> Iterator[str]:
    if ";" in piece:
        yield from (fold_parameter(parameter_name(inner)) for inner in piece.split(";"))


def _unplaceable(need: InjectQuery, why: str) -> CredentialRefusal:
    return CredentialRefusal("request.malformed", why, need.secret, Slot("query", need.name))
