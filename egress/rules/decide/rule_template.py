"""Rules with placeholders: `{param.NAME}` stands for a value that each sandbox has for itself.

A placeholder stands in a path, in the value of a header or query parameter, or in a repository or ref of git,
of an allow rule. Its value is put into the text that was written, and the result is read like any other rule.
Characters of values have no meaning in patterns, so a value is a literal wherever it stands: it can hold
neither a wildcard nor an escape.

Until then the rule itself fits nothing, so that code which forgets the values allows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from egress.rules.decide.globs import GlobError, PathGlob, ValueGlob, path_glob
from egress.rules.decide.placeholder_texts import with_texts
from egress.rules.decide.predicates import NamedGlob, Predicates

PLACEHOLDER_START: Final = "{param."
PARAMETER_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
PLACEHOLDER: Final = re.compile(rf"\{{param\.({PARAMETER_NAME.pattern})\}}")


@dataclass(frozen=True, slots=True)
class RuleTemplate:
    """The predicates of a rule with placeholders."""

    written: Predicates
    """As they are written: the texts of its globs have placeholders, and are not for matching."""
    widest: Predicates
    """Every request that some value could allow, for the checks of a rule file."""
    names: frozenset[str]
    """The parameters that the rule needs."""

    def filled(self, values: Mapping[str, str]) -> Predicates | None:
        """Return the predicates with these values; None where one is missing, or no path can be like that."""
        if not self.names <= values.keys():
            return None
        written = self.written
        try:
            paths = written.paths and tuple(
                path_glob(_put(glob.text, values), encoded_slash=written.encoded_slash)
                for glob in written.paths
            )
        except GlobError:
            return None
        return Predicates(
            methods=written.methods,
            paths=paths,
            query=_put_all(written.query, values),
            headers=_put_all(written.headers, values),
            content_types=written.content_types,
            websocket=written.websocket,
            encoded_slash=written.encoded_slash,
            body=with_texts(written.body, lambda text: _put(text, values)),
        )


def placeholders_in(text: str) -> frozenset[str]:
    """Return the names of the parameters in a text."""
    return frozenset(PLACEHOLDER.findall(text))


def widest_path(text: str) -> str:
    """Return a pattern for every path that a path with placeholders can become."""
    # A value may have slashes, so its segment can become any number of them.
    return "/".join("**" if PLACEHOLDER_START in segment else segment for segment in text.split("/"))


def path_template(text: str) -> PathGlob:
    """Return a path with placeholders in the form of a pattern that fits nothing."""
    return PathGlob(text, ())


def _put_all(named: tuple[NamedGlob, ...], values: Mapping[str, str]) -> tuple[NamedGlob, ...]:
    return tuple(
        each if each.glob is None else NamedGlob(each.name, ValueGlob(_put(each.glob.text, values)))
        for each in named
    )


def _put(text: str, values: Mapping[str, str]) -> str:
    # In one pass: what a value puts in is not read for placeholders again.
    return PLACEHOLDER.sub(lambda match: values[match[1]], text)
