"""Presets: ready rules for well-known services, as data with parameters.

Theory of operation. A preset is a rule file with `${parameter}` in host keys, paths, repositories, refs and
secret names, and nowhere else. Arguments are validated first and substituted into parsed values afterwards,
so an argument can never change the structure. The result is compiled by the same code as a person's own
entries; its positions name the `use:` item and the line of the preset.

A parameter whose name has a dot, such as `push.refs`, is given as a key of a mapping: `push: {refs: [...]}`.

A list parameter multiplies the host key, path, repository or ref that contains it. A rule left without paths
or repositories is dropped: `write: []` removes writing this way. `when: {parameter: choice}` on a rule or an
injection drops it unless the argument has that choice. An injection for dropped rules alone is dropped, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from egress.inspect.git.ref_name import is_ref_name
from egress.rules.compile.secrets import NAME_PATTERN as SECRET_NAME
from egress.rules.language import document as documents
from egress.rules.language.document import Document, Value, ValuePath
from egress.rules.language.hosts import HostError, parse_host_pattern
from egress.rules.language.report import DocumentCursor, Report, did_you_mean, quoted
from egress.rules.language.strict_model import Model
from egress.rules.language.validation import validate

Argument = str | list[str]
Arguments = Mapping[str, Argument]

_PARAMETER = re.compile(r"\$\{([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)?)\}")
# Also matches malformed parameters, so that each of them is reported.
_ANY_PARAMETER = re.compile(r"\$\{([^}]*)\}?")
_PATH_FRAGMENT = re.compile(r"[A-Za-z0-9._~!$&'()*+,=:@%-]+(?:/[A-Za-z0-9._~!$&'()*+,=:@%-]+)*")


class Parameter(Model):
    """The allowed arguments of a `${name}`."""

    type: Literal[
        "host",
        "secret",
        "path",
        "ref",
        "choice",
        "list of host",
        "list of secret",
        "list of path",
        "list of ref",
        "list of choice",
    ]
    help: str
    wildcard: bool = False
    choices: list[str] | None = None
    risks: dict[str, str] = Field(default_factory=dict)
    """What a choice gives away, by choice; said wherever it is chosen."""
    default: str | list[str] | None = None

    @property
    def is_list(self) -> bool:
        return self.type.startswith("list of ")

    @property
    def kind(self) -> str:
        return self.type.removeprefix("list of ")


class PresetHead(Model):
    """The keys of a preset that are not rules."""

    title: str
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    example: dict[str, str | list[str]] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset after reading: its head, and its rules with the parameters still in them."""

    name: str
    head: PresetHead
    document: Document


_CONDITIONAL_KEYS = ("allow", "deny", "inject")
_BRANCHES = "refs/heads/"
_OPENING_LISTS = ("paths", "fetch", "repos", "refs", "github")
"""Lists that say to what a rule is about: where an argument leaves one empty, nothing is left of the rule."""
_PREDICATE_PARTS = ("git", "push", "graphql", "scope")
_PARAMETER_POSITIONS = (
    ["paths"],
    *(
        [rules, *keys]
        for rules in ("allow", "deny")
        for keys in (["paths"], ["git", "fetch"], ["git", "push", "repos"], ["git", "push", "refs"])
    ),
    ["allow", "graphql", "scope", "github"],
    ["allow", "graphql", "scope", "ids"],
)
"""The lists of an entry in which `${...}` is substituted."""
HEAD_KEYS = ("title", "parameters", "example")
RULE_KEYS = ("secrets", "hosts", "tests")


def read(name: str, text: str, report: Report) -> Preset | None:
    """Read the text of a preset; report its mistakes."""
    document, findings = documents.read(f"preset {name}", text)
    report.findings.extend(findings)
    at = DocumentCursor(report, document)
    if not isinstance(document.value, dict):
        at.error("a preset must be a mapping", "start with `title:`")
    if findings or not isinstance(document.value, dict):
        return None
    for key in document.value:
        if key not in (*HEAD_KEYS, *RULE_KEYS):
            (at / key).key_error(f"unknown key {quoted(key)}", did_you_mean(key, (*HEAD_KEYS, *RULE_KEYS)))
    head = validate(PresetHead, {key: document.value[key] for key in HEAD_KEYS if key in document.value}, at)
    if head is None:
        return None
    # Only count errors of this preset: earlier files must not block it.
    errors = report.error_count
    rules = {key: value for key, value in document.value.items() if key in ("secrets", "hosts")}
    _check_parameters(rules, head, at)
    _check_conditions(rules, head, at)
    if report.error_count > errors:
        return None
    return Preset(name, head, document)


def _check_parameters(rules: dict[str, Value], head: PresetHead, at: DocumentCursor) -> None:
    """Report every `${...}` that is no parameter, or that is in a position without substitution."""
    for name in head.parameters:
        if not _PARAMETER.fullmatch(f"${{{name}}}"):
            (at / "parameters" / name).key_error(
                f"{quoted(name)} is not a parameter name",
                "lower-case letters, digits and _, with a dot before a key of a mapping",
            )
    for text, path, here, is_key in _texts(rules, (), at):
        if "${" not in text:
            continue
        # An argument is checked as host, path or name; elsewhere it could change the meaning of a rule.
        if not _takes_parameters(path, is_key=is_key):
            here.error(
                "parameters are not substituted here",
                "use them only in host keys, paths, repositories, refs and names of secrets",
            )
        # A parameter counts as known only in its exact spelling.
        sound = {*_PARAMETER.findall(text)} & {*head.parameters}
        for name in sorted({*_ANY_PARAMETER.findall(text)} - sound):
            here.error(f"the preset has no parameter {quoted(name)}", did_you_mean(name, head.parameters))


def _check_conditions(rules: dict[str, Value], head: PresetHead, at: DocumentCursor) -> None:
    """Report every `when:` that can never hold, and every risk of an unknown choice."""
    for name, parameter in head.parameters.items():
        for choice in parameter.risks.keys() - {*(parameter.choices or ())}:
            (at / "parameters" / name / "risks" / choice).key_error(f"{quoted(choice)} is not a choice")
    for host, entry in _named_mappings(rules.get("hosts")):
        for key in _CONDITIONAL_KEYS:
            for number, item in enumerate(_mappings(entry.get(key))):
                here = at / "hosts" / host / key / number / "when"
                wanted = item.get("when", {})
                is_sound = isinstance(wanted, dict) and all(
                    name in head.parameters and choice in (head.parameters[name].choices or ())
                    for name, choice in wanted.items()
                )
                if not is_sound:
                    here.error(
                        "no argument meets this condition",
                        "write when: {parameter: choice} with a choice of that parameter",
                    )


def _texts(
    value: Value, path: ValuePath, at: DocumentCursor
) -> Iterator[tuple[str, ValuePath, DocumentCursor, bool]]:
    """Yield every text and key of a value with its path, its place, and whether it is a key."""
    if isinstance(value, str):
        yield value, path, at, False
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, (*path, number), at / number)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key, (*path, key), at / key, True
            yield from _texts(item, (*path, key), at / key)


def expand(preset: Preset, given: object, use: DocumentCursor) -> Document | None:
    """Return the rules of the preset with arguments substituted; None after reporting wrong arguments."""
    arguments = _arguments(preset, given if isinstance(given, dict) else {}, use)
    if arguments is None:
        return None
    for name, parameter in preset.head.parameters.items():
        for choice in _as_list(arguments[name]):
            if choice in parameter.risks:
                use.report.notice(use.place, f"{preset.name}, {name}: {choice}: {parameter.risks[choice]}")
    return _Expansion(preset.document, arguments, use).document


# Arguments ------------------------------------------------------------------------------------


def _arguments(preset: Preset, given: dict[str, Value], use: DocumentCursor) -> Arguments | None:
    errors = len(use.report.findings)
    parameters = preset.head.parameters
    found = {name: (value, at) for name, value, at in _named_arguments(preset, given, use / preset.name)}
    for name, (_, at) in found.items():
        if name not in parameters:
            at.key_error(
                f"the preset {preset.name} has no parameter {quoted(name)}", did_you_mean(name, parameters)
            )
    arguments: dict[str, Argument] = {}
    for name, parameter in parameters.items():
        if name in found:
            argument = _argument(parameter, *found[name])
        elif parameter.default is not None:
            argument = _argument(parameter, _as_value(parameter.default), use)
        else:
            use.error(f"the preset {preset.name} needs the parameter {quoted(name)}", parameter.help)
            continue
        if argument is not None:
            arguments[name] = argument
    return arguments if len(use.report.findings) == errors else None


def _named_arguments(
    preset: Preset, given: dict[str, Value], at: DocumentCursor
) -> Iterator[tuple[str, Value, DocumentCursor]]:
    """Yield the arguments with their places; a key of a mapping has the name `MAPPING.KEY`."""
    parts = (name.partition(".") for name in preset.head.parameters if "." in name)
    mappings = {group: key for group, _, key in parts}
    for name, value in given.items():
        group, dot, _ = name.partition(".")
        if group not in mappings:
            yield name, value, at / name
        elif isinstance(value, dict) and not dot:
            yield from ((f"{name}.{key}", item, at / name / key) for key, item in value.items())
        else:
            (at / name).error(
                f"the parameter {quoted(group)} must be a mapping",
                f"write {group}: {{{mappings[group]}: ...}}",
            )


def _argument(parameter: Parameter, value: Value, at: DocumentCursor) -> Argument | None:
    if parameter.is_list:
        if not isinstance(value, list):
            at.error("this parameter must be a list", "put it in brackets: [...]")
            return None
        items = [_single(parameter, item, at / number) for number, item in enumerate(value)]
        return [item for item in items if item is not None]
    return _single(parameter, value, at)


def _single(parameter: Parameter, value: Value, at: DocumentCursor) -> str | None:
    if not isinstance(value, str):
        at.error("this parameter must be text", parameter.help)
        return None
    problem = _problem(parameter, value)
    if problem is not None:
        at.error(problem, parameter.help)
        return None
    # A ref without its whole name is a branch.
    is_branch = parameter.kind == "ref" and not value.startswith("refs/")
    return _BRANCHES + value if is_branch else value


def _problem(parameter: Parameter, value: str) -> str | None:
    if parameter.kind == "choice":
        return (
            None
            if value in (parameter.choices or ())
            else f"{quoted(value)} is not one of {', '.join(parameter.choices or ())}"
        )
    if parameter.kind == "secret":
        return None if SECRET_NAME.fullmatch(value) else f"{quoted(value)} is not a secret name"
    if "*" in value and not parameter.wildcard:
        return "this parameter cannot contain a wildcard"
    if parameter.kind == "ref":
        ref = value if value.startswith("refs/") else _BRANCHES + value
        is_ref = is_ref_name(ref.replace("*", "x"))
        return None if is_ref else f"{quoted(value)} is neither a branch such as agent/** nor a ref"
    if parameter.kind == "path":
        # A `..` segment could lead out of the path that the preset opens.
        segments = value.split("/")
        is_path = _PATH_FRAGMENT.fullmatch(value) and "." not in segments and ".." not in segments
        return None if is_path else f"{quoted(value)} is not a path fragment such as acme/widgets"
    try:
        parse_host_pattern(value)
    except HostError as error:
        return error.message
    return None


# Substitution ---------------------------------------------------------------------------------


class _Expansion:
    """Copies the values of a preset with arguments substituted, and with their positions."""

    def __init__(self, source: Document, arguments: Arguments, use: DocumentCursor) -> None:
        self.source = source
        self.arguments = arguments
        self.use = use
        self.document = Document(source.name, used_at=use.place)
        self.dropped: set[str] = set()
        value = source.value if isinstance(source.value, dict) else {}
        rules = self._mapping({key: value[key] for key in RULE_KEYS if key in value}, value, ())
        for entry in _mappings(rules.get("hosts")):
            self._forget_dropped_rules(entry)
        self.document.value = rules

    def _mapping(
        self, part: dict[str, Value], original: dict[str, Value], path: ValuePath
    ) -> dict[str, Value]:
        copy: dict[str, Value] = {}
        keys = self.document.keys[id(copy)] = {}
        spots: dict[str, tuple[int, int]] = {}
        self.document.values[id(copy)] = spots
        for key, value in part.items():
            for name in self._texts(key) if _takes_parameters((*path, key), is_key=True) else (key,):
                new = self._value(value, (*path, key))
                if new is None:
                    continue
                # Two parameters with one value would otherwise overwrite each other's rules.
                if copy.get(name, new) != new:
                    message = f"the preset describes {quoted(name)} twice, in different ways"
                    self.use.error(message, "give each parameter its own host")
                copy[name] = new
                keys[name] = self.source.keys[id(original)][key]
                spots[name] = self.source.values[id(original)][key]
        return copy

    def _value(self, value: Value, path: ValuePath) -> Value | None:
        if isinstance(value, dict):
            part = dict(value)
            # A rule of another choice is gone, not open.
            if _is_conditional(path) and not self._is_chosen(part.pop("when", {})):
                self.dropped.add(str(value.get("id")))
                return None
            copy = self._mapping(part, value, path)
            # An empty list argument left no path or repository: the rule is gone, not open.
            if _is_emptied(value, copy):
                self.dropped.add(str(value.get("id")))
                return None
            return copy
        if isinstance(value, list):
            return self._list(value, path)
        if isinstance(value, str) and _takes_parameters(path, is_key=False):
            return next(self._texts(value), None)
        return value

    def _is_chosen(self, wanted: Value) -> bool:
        conditions = wanted if isinstance(wanted, dict) else {}
        return all(choice in _as_list(self.arguments.get(name, [])) for name, choice in conditions.items())

    def _list(self, values: list[Value], path: ValuePath) -> list[Value]:
        copy: list[Value] = []
        spots: list[tuple[int, int]] = []
        self.document.items[id(copy)] = spots
        for number, value in enumerate(values):
            spot = self.source.items[id(values)][number]
            multiplies = isinstance(value, str) and _takes_parameters(path, is_key=False)
            new = list(self._texts(str(value))) if multiplies else [self._value(value, (*path, number))]
            for item in new:
                if item is not None:
                    copy.append(item)
                    spots.append(spot)
        return copy

    def _forget_dropped_rules(self, entry: dict[str, Value]) -> None:
        """Remove dropped rules from `for:`, and injections that were only for dropped rules."""
        kept = {rule.get("id") for rule in _mappings(entry.get("allow"))}
        injections = entry.get("inject")
        if not isinstance(injections, list):
            return
        # From the end, so that deleting keeps the remaining indexes valid.
        for number in reversed(range(len(injections))):
            item = injections[number]
            names = item.get("for") if isinstance(item, dict) else None
            if isinstance(names, list) and names:
                self._remove(names, [name in self.dropped and name not in kept for name in names])
                if not names:
                    self._remove(injections, [other == number for other in range(len(injections))])

    def _remove(self, values: list[Value], is_gone: list[bool]) -> None:
        spots = self.document.items[id(values)]
        for number in reversed(range(len(values))):
            if is_gone[number]:
                del values[number], spots[number]

    def _texts(self, text: str) -> Iterator[str]:
        """Yield `text` with arguments substituted: once, or once for each item of a list argument."""
        match = _PARAMETER.search(text)
        if match is None:
            yield text
            return
        for value in _as_list(self.arguments.get(match[1], [])):
            for rest in self._texts(text[match.end() :]):
                yield text[: match.start()] + value + rest


def _takes_parameters(path: ValuePath, *, is_key: bool) -> bool:
    """Report whether `${...}` is substituted here: host and secret keys, bindings, paths, secret names."""
    if is_key:
        return len(path) == 2 and path[0] in ("hosts", "secrets")
    names = [step for step in path if isinstance(step, str)]
    if path[0] == "secrets":
        return names[2:] == ["hosts"]
    if "inject" in names[2:3]:
        return names[-1] in ("secret", "bearer")
    return path[0] == "hosts" and names[2:] in _PARAMETER_POSITIONS


def _is_emptied(value: dict[str, Value], copy: dict[str, Value]) -> bool:
    """Report whether arguments have left a list of a rule, or of its predicate on bodies, empty."""
    lists = any(value.get(key) and copy.get(key) == [] for key in _OPENING_LISTS)
    return lists or any(key in value and key not in copy for key in _PREDICATE_PARTS)


def _is_conditional(path: ValuePath) -> bool:
    """Report whether `when:` counts here: on the items of an entry's rules and injections."""
    return len(path) == 4 and path[0] == "hosts" and path[2] in _CONDITIONAL_KEYS


def _as_value(argument: Argument) -> Value:
    return [*argument] if isinstance(argument, list) else argument


def _as_list(argument: Argument) -> list[str]:
    return argument if isinstance(argument, list) else [argument]


def _named_mappings(value: Value | None) -> list[tuple[str, dict[str, Value]]]:
    found = value.items() if isinstance(value, dict) else ()
    return [(key, item) for key, item in found if isinstance(item, dict)]


def _mappings(value: Value | None) -> list[dict[str, Value]]:
    """Return the mappings directly below a list or mapping."""
    below = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [item for item in below if isinstance(item, dict)]
