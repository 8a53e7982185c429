"""Compile the scope of a rule on GraphQL."""

from __future__ import annotations

import re
from typing import Final

from egress.inspect.graphql.github.node_id import REPOSITORY_PREFIX, NodeIdError, read_node_id
from egress.rules.compile.placeholders import check_placeholders_in, with_sample
from egress.rules.decide.github_scope import GithubScope
from egress.rules.decide.name_glob import NameGlob
from egress.rules.decide.rule_template import PLACEHOLDER
from egress.rules.language.body_models import GraphqlScope
from egress.rules.language.report import DocumentCursor, quoted

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
_GLOB: Final = re.compile(r"(?!.*\*\*)[A-Za-z0-9._*-]+/[A-Za-z0-9._*-]+")


def github_scope(model: GraphqlScope, exempt: tuple[str, ...], at: DocumentCursor) -> GithubScope:
    """Compile the scope at `at`; report its mistakes."""
    for number, text in enumerate(model.github):
        here = at / "github" / number
        check_placeholders_in(text, here)
        # A placeholder that stands alone has the whole name for its value.
        if not _GLOB.fullmatch(with_sample(text)) and not PLACEHOLDER.fullmatch(text):
            here.error(
                f"{quoted(text)} is not the name of a repository", "write it as in `acme/app` or `acme/*`"
            )
    ids: list[tuple[str, int, str]] = []
    for number, text in enumerate(model.ids or ()):
        name, _, written = text.partition("=")
        here = at / "ids" / number
        if not _NAME.fullmatch(name) or not written:
            here.error(f"{quoted(text)} is not a name with an id", "write it as in `acme/app=R_kgDOABPHjQ`")
            continue
        try:
            found = read_node_id(written)
        except NodeIdError as error:
            here.error(f"{quoted(written)}: {error.detail}", _ID_HINT.format(name=name))
            continue
        if found.prefix != REPOSITORY_PREFIX:
            here.error(f"{quoted(written)} is not the id of a repository", _ID_HINT.format(name=name))
            continue
        ids.append((name, found.repository, written))
    return GithubScope(tuple(map(NameGlob, model.github)), tuple(ids), exempt)


_ID_HINT: Final = "`gh api repos/{name} -q .node_id` prints it"
