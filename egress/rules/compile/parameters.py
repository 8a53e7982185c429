"""Compile `parameters:`, and the placeholders of allow rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from egress.rules.compile.git_rules import git_texts
from egress.rules.compile.graphql_rules import graphql_texts
from egress.rules.compile.placeholders import check_placeholders_in, with_sample
from egress.rules.compile.single_rules import RuleIds, expires_of, handling_of, predicates_of
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.globs import PathGlob, ValueGlob, path_glob
from egress.rules.decide.paths import to_wire_text
from egress.rules.decide.placeholder_texts import with_texts
from egress.rules.decide.policy import ParameterSpec
from egress.rules.decide.predicates import NamedGlob, Predicates
from egress.rules.decide.rule_template import (
    PARAMETER_NAME,
    PLACEHOLDER_START,
    RuleTemplate,
    path_template,
    placeholders_in,
    widest_path,
)
from egress.rules.language.model import Allow, Host, NamedGlobs, Network, ParameterItem
from egress.rules.language.report import DocumentCursor, Report, did_you_mean, quoted
from egress.rules.language.value_pattern import parse_value_pattern, value_fault

_NAME_HINT = "names begin with a letter, and have up to 32 letters, digits, - and _"


def compile_parameter(name: str, model: ParameterItem, at: DocumentCursor) -> ParameterSpec | None:
    """Compile a declaration; return None after reporting that its pattern cannot be used."""
    if not PARAMETER_NAME.fullmatch(name):
        at.key_error(f"{quoted(name)} is not the name of a parameter", _NAME_HINT)
    pattern = (at / "pattern").parse(parse_value_pattern, model.pattern)
    if pattern is None:
        return None
    if model.default is not None:
        fault = value_fault(model.default)
        if fault or not pattern.matches(model.default):
            (at / "default").error(
                f"the default cannot be used: {fault}" if fault else "the default does not fit the pattern",
                "leave it out, so that rules with the parameter match only where a sandbox has a value",
            )
    return ParameterSpec(name, at.key_place, pattern, model.default)


def check_placeholders(
    entries: Iterable[Entry], declared: Mapping[str, ParameterSpec], unsound: Iterable[str], report: Report
) -> None:
    """Report placeholders without a declaration, and declarations without a placeholder."""
    # What is declared with a mistake is not reported a second time.
    known = {*declared, *unsound}
    used: set[str] = set()
    for entry in entries:
        for rule in entry.allow:
            names = rule.template.names if rule.template else frozenset()
            used |= names
            for name in sorted(names - known):
                report.error(
                    rule.ref.place,
                    f"the parameter {quoted(name)} is not declared",
                    did_you_mean(name, declared) or "declare it under `parameters:`",
                )
    for name, spec in declared.items():
        if name not in used:
            report.warning(
                spec.place, f"no rule uses the parameter {quoted(name)}", f"write {PLACEHOLDER_START}{name}}}"
            )


def allow_predicates(model: Allow | Host, at: DocumentCursor) -> tuple[Predicates, RuleTemplate | None]:
    """Compile the predicates of an allow rule, and its template if it has placeholders."""
    texts = [*(model.paths or ()), *_values(model.query), *_values(model.headers)]
    texts += (*git_texts(model.git), *graphql_texts(model.graphql)) if isinstance(model, Allow) else ()
    if not any(PLACEHOLDER_START in text for text in texts):
        return predicates_of(model, at), None
    _check_texts(model, at)
    # Read with a sample value first: that finds every mistake of the text around the placeholders.
    sample = model.model_copy(
        update={
            "paths": model.paths and [with_sample(text) for text in model.paths],
            "query": model.query and _sampled(model.query),
            "headers": model.headers and _sampled(model.headers),
        }
    )
    errors = at.report.error_count
    made = predicates_of(sample, at)
    nothing = replace(made, paths=())
    if at.report.error_count > errors:
        return nothing, None
    return nothing, _template(model, made, frozenset().union(*map(placeholders_in, texts)))


def allow_rule(model: Allow, at: DocumentCursor, ids: RuleIds) -> Rule:
    """Compile an item of an `allow:` list."""
    predicates, template = allow_predicates(model, at)
    ref = ids.claim(model.id, at)
    expires = expires_of(model.expires, at / "expires")
    return Rule(ref, predicates, handling_of(model, at), expires, template)


def implicit_rule(model: Host | Network, at: DocumentCursor, ids: RuleIds) -> Rule:
    """Compile the rule of an entry that is allowed as a whole, or that has predicates on itself."""
    ref = ids.implicit(at)
    if isinstance(model, Network):
        return Rule(ref, Predicates())
    predicates, template = allow_predicates(model, at)
    return Rule(ref, predicates, template=template)


def _template(model: Allow | Host, made: Predicates, names: frozenset[str]) -> RuleTemplate:
    if model.paths is None:
        # What is left has no path, or stands for paths of its own.
        pairs: list[tuple[str, PathGlob]] = []
    else:
        pairs = list(zip(model.paths, made.paths or (), strict=True))
    is_open = [PLACEHOLDER_START in text for text, _ in pairs]
    written = replace(
        made,
        paths=tuple(path_template(text) if is_open[at] else glob for at, (text, glob) in enumerate(pairs))
        if pairs
        else made.paths,
        query=_named(model.query, made.query, widest=False),
        headers=_named(model.headers, made.headers, widest=False),
    )
    widest = replace(
        made,
        paths=tuple(
            path_glob(widest_path(text), encoded_slash=made.encoded_slash) if is_open[at] else glob
            for at, (text, glob) in enumerate(pairs)
        )
        if pairs
        else made.paths,
        query=_named(model.query, made.query, widest=True),
        headers=_named(model.headers, made.headers, widest=True),
        body=with_texts(made.body, widest_path),
    )
    return RuleTemplate(written, widest, names)


def _named(model: NamedGlobs | None, made: tuple[NamedGlob, ...], *, widest: bool) -> tuple[NamedGlob, ...]:
    texts = list((model or {}).values())
    return tuple(
        NamedGlob(glob.name, ValueGlob("*" if widest else to_wire_text(text)))
        if isinstance(text, str) and PLACEHOLDER_START in text
        else glob
        for text, glob in zip(texts, made, strict=True)
    )


def _check_texts(model: Allow | Host, at: DocumentCursor) -> None:
    for number, text in enumerate(model.paths or ()):
        for segment in text.split("/"):
            check_placeholders_in(segment, at / "paths" / number)
    for key, named in (("query", model.query), ("headers", model.headers)):
        for name, value in (named or {}).items():
            if isinstance(value, str):
                check_placeholders_in(value, at / key / name)


def _values(named: NamedGlobs | None) -> Iterator[str]:
    return (value for value in (named or {}).values() if isinstance(value, str))


def _sampled(named: NamedGlobs) -> NamedGlobs:
    return {name: with_sample(value) if isinstance(value, str) else value for name, value in named.items()}
