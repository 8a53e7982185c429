"""Predicates of a rule other than its path: methods, query, headers, content type, WebSocket.

Theory of operation. Predicates are joined by AND, the values of one predicate by OR. Allow and deny
read doubtful input in opposite ways, so that each fails closed: for an allow, every occurrence of a
parameter must fit; for a deny, one is enough. A query that cannot be decoded fits no allow and
every deny.

Paths are matched by `plan`, all rules of a host at once; this module matches the rest afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from egress.request_name_folding import MAX_PARTS, fold_header, fold_parameter
from egress.rules.decide.body_predicate import BodyPredicate
from egress.rules.decide.globs import PathGlob, ValueGlob
from egress.rules.language.hosts import HostPattern
from egress.types import Headers

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+/[a-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, slots=True)
class NamedGlob:
    """A query parameter or header that must match; without a glob it must be absent."""

    name: str
    glob: ValueGlob | None


@dataclass(frozen=True, slots=True)
class Predicates:
    """Conditions a request must meet for a rule to match. Empty and None mean: no such condition."""

    methods: frozenset[str] | None = None
    paths: tuple[PathGlob, ...] | None = None
    query: tuple[NamedGlob, ...] = ()
    headers: tuple[NamedGlob, ...] = ()
    content_types: tuple[str, ...] = ()
    websocket: bool = False
    encoded_slash: bool = False
    hosts: tuple[HostPattern, ...] = ()
    """Only rules of the top-level `deny:` list have hosts."""
    body: BodyPredicate | None = None
    """Conditions on the body, which are asked when it has been read."""

    @property
    def looks_inside(self) -> bool:
        """Report whether a request must be read beyond method and path."""
        return bool(self.query or self.headers or self.content_types)

    def __bool__(self) -> bool:
        return self != _NO_PREDICATES


_NO_PREDICATES = Predicates()


def allow_fits(predicates: Predicates, query: str, headers: Headers) -> bool:
    """Report whether query and headers satisfy an allow rule; doubt means no."""
    if predicates.query:
        # A parameter hidden behind `;` counts too: a server may read it, and it must fit as well.
        parameters = parse_query(query)
        if parameters is None or not _all_fit(
            predicates.query, parameters, _semicolon_parameters(query), _same_parameter
        ):
            return False
    if predicates.headers and not _all_fit(predicates.headers, headers, (), _same_header):
        return False
    return not predicates.content_types or _media_type_fits(predicates.content_types, headers, of_any=False)


def deny_fits(predicates: Predicates, query: str, headers: Headers) -> bool:
    """Report whether query and headers satisfy a deny rule; doubt means yes."""
    if predicates.query and not any(_query_fits(predicates.query, text) for text in _readings(query)):
        return False
    if predicates.headers and not _any_fits(predicates.headers, headers, _same_header, _with_elements):
        return False
    return not predicates.content_types or _media_type_fits(predicates.content_types, headers, of_any=True)


def _readings(query: str) -> tuple[str, ...]:
    """Return the query, and the query as a server reads it that takes `;` for `&`."""
    return (query, query.replace(";", "&")) if ";" in query else (query,)


def _query_fits(wanted: tuple[NamedGlob, ...], query: str) -> bool:
    parameters = parse_query(query)
    return parameters is None or _any_fits(wanted, parameters, _same_parameter)


def parameter_names(query: str) -> Iterator[str]:
    """Yield every parameter name some server may read in a query, folded to one spelling."""
    for part in query.removeprefix("?").replace(";", "&").split("&"):
        yield fold_parameter(decode_parameter(part.partition("=")[0]))


def parse_query(query: str) -> Headers | None:
    """Decode the parameters of a query, in order; None if an escape is broken, or for very many."""
    # Servers read different numbers of parameters, so with very many of them there is doubt as well.
    if query.count("&") + query.count(";") >= MAX_PARTS:
        return None
    pairs = []
    for part in query.removeprefix("?").split("&"):
        if not part:
            continue
        # Servers disagree about a broken escape: no allow may rely on a reading, and each deny must fit.
        if _BROKEN_ESCAPE.search(part):
            return None
        name, _, value = part.partition("=")
        pairs.append((decode_parameter(name), decode_parameter(value)))
    return tuple(pairs)


def decode_parameter(text: str) -> str:
    """Return a name or value of a query with its escapes read once; a broken escape stays as it is."""
    text = text.replace("+", " ")
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text) if "%" in text else text


def _semicolon_parameters(query: str) -> Headers:
    """Return the parameters that are visible only to a server that takes `;` for `&`."""
    parts = [part for chunk in query.split("&") for part in chunk.split(";")[1:]]
    return parse_query("&".join(parts)) or ()


def _with_elements(values: list[str]) -> Iterable[str]:
    """Return the values of a header, and each element of those that are lists: a deny looks at both."""
    elements = [part.strip(" \t") for value in values if "," in value for part in value.split(",")]
    # Once each: a header can hold many thousands of elements.
    return dict.fromkeys([*values, *elements])


Same = Callable[[str, str], bool]


def _same_parameter(name: str, other: str) -> bool:
    return name == other or fold_parameter(name) == fold_parameter(other)


def _same_header(name: str, other: str) -> bool:
    # Folding keeps the length, so most names are told apart without it.
    return name == other or (len(name) == len(other) and fold_header(name) == fold_header(other))


def _all_fit(wanted: tuple[NamedGlob, ...], pairs: Headers, hidden: Headers, same: Same) -> bool:
    """Require each name as it is written, and a fit of every name a server may take for it."""
    # A server may read the exact name or a lookalike: the rule needs the former and checks both.
    for want in wanted:
        values = [value for name, value in (*pairs, *hidden) if same(name, want.name)]
        if want.glob is None:
            if values:
                return False
        elif not any(name == want.name for name, _ in pairs) or not all(
            want.glob.matches(value) for value in values
        ):
            return False
    return True


def _any_fits(
    wanted: tuple[NamedGlob, ...],
    pairs: Headers,
    same: Same,
    readings: Callable[[list[str]], Iterable[str]] = iter,
) -> bool:
    for want in wanted:
        if want.glob is None:
            # `absent` means the name as written: a lookalike must not switch a deny off.
            if any(name == want.name for name, _ in pairs):
                return False
            continue
        values = [value for name, value in pairs if same(name, want.name)]
        # A server may ignore case: `Admin` must not escape a deny of `admin`.
        if not any(want.glob.matches(value, ignore_case=True) for value in readings(values)):
            return False
    return True


def _media_type_fits(wanted: tuple[str, ...], headers: Headers, *, of_any: bool) -> bool:
    """Compare Content-Type headers: an allow wants all of them to fit, a deny one of them.

    A value that is no media type can be read as any: it fits no allow and every deny.
    """
    found = [
        value.partition(";")[0].strip(" \t").lower()
        for name, value in headers
        if _same_header(name, "content-type")
    ]
    if not found or not (of_any or any(name == "content-type" for name, _ in headers)):
        # An allow needs the field in its exact spelling; most servers ignore other spellings.
        return False
    if not all(_MEDIA_TYPE.fullmatch(media_type) for media_type in found):
        return of_any
    fits = (_is_media_type(media_type, wanted) for media_type in found)
    return any(fits) if of_any else all(fits)


def _is_media_type(media_type: str, wanted: tuple[str, ...]) -> bool:
    family = media_type.partition("/")[0]
    return media_type in wanted or f"{family}/*" in wanted
