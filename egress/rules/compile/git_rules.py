"""Compile the predicate `git` of a rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from egress.inspect.git.endpoint import PATH_ENDS
from egress.inspect.git.push_request import is_push_option
from egress.inspect.git.ref_name import is_ref_name
from egress.rules.compile.placeholders import check_placeholders_in, with_sample
from egress.rules.decide.git_predicate import GitPredicate, PushTerms
from egress.rules.decide.globs import PathGlob, ValueGlob, path_glob
from egress.rules.decide.name_glob import NameGlob
from egress.rules.decide.rule_template import PLACEHOLDER_START
from egress.rules.language.body_models import GitAllow, GitDeny, GitPushAllow
from egress.rules.language.report import DocumentCursor, quoted

GIT_PATHS: Final[tuple[PathGlob, ...]] = tuple(path_glob(f"/**{end}") for end in PATH_ENDS)
"""The paths of a rule with this predicate: those of every repository."""


def git_predicate(model: GitAllow | GitDeny, at: DocumentCursor) -> GitPredicate:
    """Compile the predicate at `at`; report its mistakes."""
    if model.fetch is None and model.push is None:
        at.error("`git` needs `fetch`, `push` or both", 'name repositories, as in `fetch: ["acme/*"]`')
    if isinstance(model, GitDeny):
        _refuse_placeholders(model, at)
    made = GitPredicate(_repositories(model.fetch, at / "fetch"))
    push, here = model.push, at / "push"
    if push is None:
        return made
    terms = PushTerms(
        _repositories(push.repos, here / "repos"),
        _refs(push.refs, here / "refs"),
        options=_options(push.options, here / "options"),
    )
    if isinstance(push, GitPushAllow):
        terms = replace(terms, create=push.create, update=push.update, delete=push.delete)
    elif not (push.repos or push.refs or push.options):
        here.error(
            "a deny of pushes needs `repos`, `refs` or `options`", 'to deny all, write `repos: ["**"]`'
        )
    return replace(made, push=terms)


def git_texts(model: GitAllow | GitDeny | None) -> tuple[str, ...]:
    """Return the texts in which placeholders may stand."""
    push = None if model is None else model.push
    return (
        *((model and model.fetch) or ()),
        *((push and push.repos) or ()),
        *((push and push.refs) or ()),
    )


def _refuse_placeholders(model: GitDeny, at: DocumentCursor) -> None:
    # A deny with a placeholder would deny nothing to a sandbox without the value.
    if any(PLACEHOLDER_START in text for text in git_texts(model)):
        at.error("a placeholder stands where none can", "placeholders stand in allow rules")


def _repositories(written: Sequence[str] | None, at: DocumentCursor) -> tuple[NameGlob, ...]:
    for number, text in _listed(written, at):
        here, sample = at / number, with_sample(text)
        if sample.endswith(".git"):
            here.error(f"{quoted(text)} can never match: names are compared without .git", "leave it out")
        elif "?" in sample or " " in sample or "\\" in sample or "" in sample.split("/"):
            here.error(
                f"{quoted(text)} is not the path of a repository", "write it as in `acme/app` or `acme/*`"
            )
        else:
            _check_segments(text, here)
    return tuple(map(NameGlob, written or ()))


def _refs(written: Sequence[str] | None, at: DocumentCursor) -> tuple[NameGlob, ...]:
    for number, text in _listed(written, at):
        here = at / number
        root, _, rest = text.partition("/")
        namespace = rest.partition("/")[0]
        # Left open, the namespace would open tags, notes and the refs that forges make requests from.
        is_open = "*" in namespace or PLACEHOLDER_START in namespace
        if root != "refs" or not namespace or is_open:
            here.error(
                f"{quoted(text)} does not say which refs",
                "write the whole name, as in `refs/heads/agent/**` or `refs/tags/v*`",
            )
        elif not is_ref_name(with_sample(text).replace("*", "x")):
            here.error(f"{quoted(text)} can never match: git allows no such name", "see git check-ref-format")
        else:
            _check_segments(text, here)
    return tuple(map(NameGlob, written or ()))


def _options(written: Sequence[str] | None, at: DocumentCursor) -> tuple[ValueGlob, ...]:
    for number, text in enumerate(written or ()):
        if not is_push_option(text) or PLACEHOLDER_START in text:
            (at / number).error(f"{quoted(text)} is not a push option", "write it as in `ci.skip`")
    return tuple(map(ValueGlob, written or ()))


def _listed(written: Sequence[str] | None, at: DocumentCursor) -> Iterable[tuple[int, str]]:
    if written is not None and not written:
        at.error("an empty list matches nothing", "remove the key")
    return enumerate(written or ())


def _check_segments(text: str, at: DocumentCursor) -> None:
    for segment in text.split("/"):
        check_placeholders_in(segment, at)
    if any("**" in segment and segment != "**" for segment in text.split("/")):
        at.error("** must be a whole segment", "use * for a part of a segment")
