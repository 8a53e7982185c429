"""Compile predicates and rules: from the shapes of the model to `Rule` values."""

from __future__ import annotations

import json
import re
from collections.abc import Sized
from dataclasses import dataclass, field, replace

from egress.rules.compile.body_rules import (
    BODY_KEYS,
    body_predicate,
    implied_methods,
    implied_paths,
    takes_encoded_slash,
)
from egress.rules.decide.entry import Handling, Rule
from egress.rules.decide.globs import PathGlob, ValueGlob, path_glob
from egress.rules.decide.outbound import HANDLER_NAME
from egress.rules.decide.paths import to_wire_text
from egress.rules.decide.predicates import NamedGlob, Predicates
from egress.rules.decide.rule_template import PLACEHOLDER_START
from egress.rules.language import quantities
from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.hosts import HostPattern, parse_host_pattern
from egress.rules.language.model import (
    Allow,
    Deny,
    HandlerItem,
    Host,
    Limits,
    Matching,
    NamedGlobs,
    TopDeny,
    Treatment,
)
from egress.rules.language.report import DocumentCursor, did_you_mean, quoted
from egress.types import Cookies, HandlerUse, Limit, Place, Redirects, RuleRef, Scrub

MAX_REASON_CHARS = 200
MAX_HANDLER_PARAM_CHARS = 16_384

IMPLICIT_RULE_ID = "host"
"""The id of the implicit allow rule of an entry without an `allow:` list."""

_ID = re.compile(r"[a-z][a-z0-9-]{0,62}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,64}/(?:\*|[a-z0-9!#$&^_.+-]{1,64})")
_PARAMETER = re.compile(r"[A-Za-z0-9._:$\[\]-]{1,64}")
CREDENTIAL_NAME = re.compile(
    r"(?:^|[._:$\[-])(?:key|sig|auth|pwd|jwt)(?:$|[._\]-])"
    r"|token|secret|passw|passphrase|credential|signature|authoriz|api_?key|apikey|session_?id|assertion",
    re.IGNORECASE,
)
"""Names of parameters whose values are credentials, whatever they look like."""
_STANDARD_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
# Refused in rules as well as at run time, so that a rule never promises them.
_REFUSED_METHODS = {
    "CONNECT": "a tunnel inside the connection is never allowed",
    "TRACE": "it would return the injected credential",
}

PREDICATE_KEYS = ("methods", "paths", "query", "headers", "content_type")
SWITCH_KEYS = ("websocket", "encoded_slash")
"""Keys of an entry that apply to its implicit rule without narrowing it."""


@dataclass(slots=True)
class RuleIds:
    """The ids of an entry, over allow and deny and over all files and presets that add to it."""

    key: str
    prefix: str = ""
    seen: dict[str, str] = field(default_factory=dict)

    def claim(self, written: str, at: DocumentCursor, reason: str = "") -> RuleRef:
        """Return the reference of the rule at `at`; report an invalid or duplicate id."""
        if not _ID.fullmatch(written):
            (at / "id").error(
                f"{quoted(written)} is not a rule id",
                "ids are lower case: a letter, then letters, digits and -",
            )
        elif looks_like_credential(written):
            (at / "id").error("this id looks like a credential (not shown)", "ids are shown in every record")
        return self._ref(written, at / "id", at.place, reason)

    def implicit(self, at: DocumentCursor) -> RuleRef:
        """Return the reference of the implicit rule of an entry without a list of rules."""
        return self._ref(IMPLICIT_RULE_ID, at, at.key_place)

    def _ref(self, written: str, at: DocumentCursor, place: Place, reason: str = "") -> RuleRef:
        name = self.prefix + written
        if name in self.seen:
            at.error(
                f"duplicate id {quoted(name)} (first at {self.seen[name]})",
                "give each rule of an entry its own id",
            )
        # Kept even after a duplicate, so that a third rule of the name is reported, too.
        self.seen[name] = str(place)
        return RuleRef(self.key, name, place, reason)


def deny_rule(model: Deny, at: DocumentCursor, ids: RuleIds) -> Rule:
    """Compile an item of a `deny:` list."""
    predicates = predicates_of(model, at)
    if isinstance(model, TopDeny) and model.hosts is not None:
        predicates = replace(predicates, hosts=host_patterns(model.hosts, at / "hosts"))
    # A deny without any predicate would close everything; more likely its predicates were forgotten.
    keys = (*PREDICATE_KEYS, *BODY_KEYS, "websocket", "hosts")
    if not any(getattr(model, name, None) is not None for name in keys):
        at.error("a deny rule needs at least one predicate", 'to deny everything write paths: ["/**"]')
    # Without expiry: a deny that ends by itself would open traffic silently.
    return Rule(ids.claim(model.id, at, _reason(model.reason, at / "reason")), predicates)


def _reason(text: str | None, at: DocumentCursor) -> str:
    if text is None:
        return ""
    # Sandboxes read it: a terminal must not act on it, and it must not give away a credential.
    if looks_like_credential(text):
        at.error("this reason looks like a credential (not shown)", "sandboxes read reasons")
        return ""
    if not text.strip() or not text.isprintable() or len(text) > MAX_REASON_CHARS:
        at.error(
            f"a reason is one line of printable text, of at most {MAX_REASON_CHARS} characters", "shorten it"
        )
        return ""
    return text.strip()


def predicates_of(model: Allow | Deny | Host, at: DocumentCursor) -> Predicates:
    """Compile the predicates of a rule, or of an entry that is its own rule."""
    body = body_predicate(model, at)
    encoded_slash = model.encoded_slash is not None or takes_encoded_slash(body)
    named = None if model.methods is None else methods(model.methods, at / "methods")
    globs = None if model.paths is None else paths(model.paths, at / "paths", encoded_slash=encoded_slash)
    return Predicates(
        methods=implied_methods(body) if named is None and body is not None else named,
        paths=implied_paths(body) if globs is None else globs,
        query=_named_globs(model.query, at / "query"),
        headers=_headers(model, at / "headers"),
        content_types=_content_types(model.content_type, at / "content_type"),
        websocket=bool(model.websocket),
        encoded_slash=encoded_slash,
        body=body,
    )


def handling_of(model: Treatment, at: DocumentCursor) -> Handling:
    """Compile the treatment of allowed traffic."""
    return Handling(
        limit=limit_of(model.limits, at / "limits"),
        scrub=None if model.scrub is None else Scrub(model.scrub),
        redirects=None if model.redirects is None else Redirects(model.redirects),
        cookies=None if model.cookies is None else Cookies(model.cookies),
        kept_query=None if model.audit is None else _kept_query(model.audit.query, at / "audit" / "query"),
        handler=handler_use(model.handler, at / "handler"),
        unmetered=isinstance(model, Allow) and model.unmetered is not None,
    )


def handler_use(model: HandlerItem | None, at: DocumentCursor) -> HandlerUse | None:
    """Compile the name and the parameters of a handler."""
    if model is None:
        return None
    if not HANDLER_NAME.fullmatch(model.use):
        (at / "use").error(
            f"{quoted(model.use)} is not the name of a handler",
            "names have up to 64 letters, digits, _ and -, and begin with a letter",
        )
    params = json.dumps(model.params, sort_keys=True, ensure_ascii=False, default=str)
    if len(params) > MAX_HANDLER_PARAM_CHARS:
        (at / "with").error(
            f"these parameters have more than {MAX_HANDLER_PARAM_CHARS} characters", "shorten them"
        )
    return HandlerUse(model.use, params)


def _kept_query(names: list[str], at: DocumentCursor) -> frozenset[str]:
    for number, name in enumerate(names):
        here = at / number
        if not _PARAMETER.fullmatch(name):
            here.error(
                f"{quoted(name)} is not the name of a query parameter",
                "write up to 64 letters, digits or any of . _ - [ ] : $",
            )
        elif CREDENTIAL_NAME.search(name):
            # A finding at the place where it is written, so that nobody waits for the value in vain.
            here.error(
                f"{quoted(name)} carries a credential, and its value is never kept",
                "remove it; the log has its name",
            )
        elif name in names[:number]:
            here.error(f"{quoted(name)} is there twice", "remove it")
    return frozenset(names)


def limit_of(model: Limits | None, at: DocumentCursor) -> Limit | None:
    """Compile the limits written at one place."""
    if model is None:
        return None
    # A burst without a rate would limit nothing, silently.
    if model.burst is not None and model.requests is None:
        (at / "burst").error("`burst` needs `requests`", "add the rate, such as `requests: 10/second`")
    return Limit(
        place=at.key_place,
        requests=(at / "requests").parse(
            lambda text: quantities.parse_rate(text, model.burst), model.requests
        ),
        connections=model.connections,
        request_body=(at / "request_body").parse(quantities.parse_size, model.request_body),
        response_body=(at / "response_body").parse(quantities.parse_size, model.response_body),
    )


def expires_of(text: str | None, at: DocumentCursor) -> int | None:
    """Return the first second after the expiry; report a text that is no moment."""
    if text is None:
        return None
    moment = at.parse(quantities.parse_expiry, text)
    # Already over after an error: should the error ever be overlooked, nothing stays open.
    return 0 if moment is None else moment


def _refuse_empty(items: Sized, at: DocumentCursor) -> None:
    # Read as a missing key, an empty list would match everything; its author may have meant either.
    if not items:
        at.error("an empty list matches nothing", "remove the key to match everything")


def methods(texts: list[str], at: DocumentCursor) -> frozenset[str]:
    """Compile a list of methods."""
    _refuse_empty(texts, at)
    for number, method in enumerate(texts):
        here = at / number
        if method.upper() in ("*", "ANY", "ALL"):
            here.error(f"{quoted(method)} is not a method", "remove `methods` to allow every method")
        elif method.upper() in _REFUSED_METHODS:
            here.error(
                f"{method.upper()} is never forwarded: {_REFUSED_METHODS[method.upper()]}", "remove it"
            )
        elif not _TOKEN.fullmatch(method):
            here.error(f"{quoted(method)} is not a method", "methods are single words such as GET")
        elif method.upper() in _STANDARD_METHODS and method not in _STANDARD_METHODS:
            here.error(f"{quoted(method)} must be upper case", f"write {method.upper()}")
        elif method not in _STANDARD_METHODS and (hint := did_you_mean(method, _STANDARD_METHODS)).startswith(
            "did"
        ):
            here.warning(f"{quoted(method)} is not a common method", hint)
    return frozenset(texts)


def paths(texts: list[str], at: DocumentCursor, *, encoded_slash: bool = False) -> tuple[PathGlob, ...]:
    """Compile a list of path patterns."""
    _refuse_empty(texts, at)
    for number, text in enumerate(texts):
        _refuse_placeholder(text, at / number)
    globs = [
        (at / number).parse(lambda text: path_glob(text, encoded_slash=encoded_slash), text)
        for number, text in enumerate(texts)
    ]
    return tuple(glob for glob in globs if glob is not None)


def _named_globs(named: NamedGlobs | None, at: DocumentCursor) -> tuple[NamedGlob, ...]:
    if named is None:
        return ()
    _refuse_empty(named, at)
    for name, value in named.items():
        _refuse_placeholder(name, at / name)
        if isinstance(value, str):
            _refuse_placeholder(value, at / name)
    return tuple(
        NamedGlob(to_wire_text(name), ValueGlob(to_wire_text(value)) if isinstance(value, str) else None)
        for name, value in named.items()
    )


def _refuse_placeholder(text: str, at: DocumentCursor) -> None:
    # A deny with a placeholder would deny nothing to a sandbox without the value.
    if PLACEHOLDER_START in text:
        at.error(
            "a placeholder stands where none can",
            "placeholders stand in the paths, and in the values of headers and query, of allow rules",
        )


def _headers(model: Matching, at: DocumentCursor) -> tuple[NamedGlob, ...]:
    for name in model.headers or ():
        here = at / name
        if not _TOKEN.fullmatch(name):
            here.key_error(f"{quoted(name)} is not a header name")
        elif name != name.lower():
            here.key_error("header names must be lower case", f"write {name.lower()}")
        # Matching on Host would suggest that it can differ from the destination.
        elif name == "host":
            here.key_error("the Host header always equals the destination", "give the host its own entry")
    return _named_globs(model.headers, at)


def _content_types(texts: list[str] | None, at: DocumentCursor) -> tuple[str, ...]:
    if texts is None:
        return ()
    _refuse_empty(texts, at)
    for number, text in enumerate(texts):
        if not _MEDIA_TYPE.fullmatch(text):
            (at / number).error(
                f"{quoted(text)} is not a media type",
                "write it in lower case, such as application/json or text/*",
            )
    return tuple(texts)


def host_patterns(texts: list[str], at: DocumentCursor) -> tuple[HostPattern, ...]:
    """Compile a list of host patterns."""
    _refuse_empty(texts, at)
    patterns = [(at / number).parse(parse_host_pattern, text) for number, text in enumerate(texts)]
    return tuple(pattern for pattern in patterns if pattern is not None)
