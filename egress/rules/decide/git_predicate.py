"""The predicate `git`: fetches and pushes by repository, and pushes by ref."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from egress.inspect.git.git_kind import GitFetch, GitPushStart, RefChange
from egress.rules.decide.body_predicate import BodyMiss, BodyPredicate, FieldValue
from egress.rules.decide.globs import PathGlob, ValueGlob, path_glob
from egress.rules.decide.name_glob import NameGlob

Update = Literal["fast-forward", "any"]

_TAGS: Final = "refs/tags/"
CLOSED_PATHS: Final = tuple(
    map(
        path_glob,
        (
            # The files of a repository, as the old protocol reads them, and WebDAV writes them.
            *("/**/objects/*/*", "/**/*.git/HEAD", "/**/*.git/objects/**", "/**/*.git/refs/**"),
            # LFS, whose answers hold credentials for other hosts.
            *("/**/info/lfs/**", "/**/gitlab-lfs/**"),
        ),
    )
)
"""Paths beside those of smart HTTP by which a repository is read or written past its refs."""


@dataclass(frozen=True, slots=True)
class PushTerms:
    """Pushes that a rule is about."""

    repos: tuple[NameGlob, ...] = ()
    """Empty in a deny rule that is about every repository."""
    refs: tuple[NameGlob, ...] = ()
    """Empty in a deny rule that is about every ref."""
    create: bool = True
    update: Update = "fast-forward"
    delete: bool = False
    options: tuple[ValueGlob, ...] = ()


@dataclass(frozen=True, slots=True)
class GitPredicate:
    """Conditions on a request of git."""

    fetch: tuple[NameGlob, ...] = ()
    push: PushTerms | None = None

    @property
    def kind(self) -> str:
        return "git"

    def expanded(self, item: object) -> tuple[object, ...] | None:
        del item
        return None

    def misses(self, item: object) -> BodyMiss | None:
        match item:
            case GitFetch(repository):
                return None if _fits(self.fetch, repository) else _miss_repository("fetch", self.fetch)
            case GitPushStart(repository) | RefChange(repository) if self.push is not None:
                if not _fits(self.push.repos, repository):
                    return _miss_repository("push", self.push.repos)
                return _change_miss(self.push, item) if isinstance(item, RefChange) else None
            case GitPushStart() | RefChange():
                return _miss_repository("push", ())
            case _:
                return BodyMiss("internal", "another kind of body")

    def denies(self, item: object) -> bool:
        match item:
            case GitFetch(repository):
                return _fits(self.fetch, repository, ignore_case=True)
            case GitPushStart(repository):
                # Which refs will be pushed is not known yet, so a deny of some does not close the repository.
                push = self.push
                return push is not None and not (push.refs or push.options) and _is_about(push, repository)
            case RefChange(repository):
                return self.push is not None and _is_about(self.push, repository) and _denies(self.push, item)
            case _:
                return True

    def fields(self) -> Mapping[str, FieldValue]:
        fields: dict[str, FieldValue] = {}
        if self.fetch:
            fields["fetch"] = [glob.text for glob in self.fetch]
        if self.push is not None:
            fields["push"] = dict(_push_fields(self.push))
        return fields

    def with_texts(self, change: Callable[[str], str]) -> Self:
        """Return the predicate with each repository and ref changed: placeholders stand in them."""

        def changed(globs: tuple[NameGlob, ...]) -> tuple[NameGlob, ...]:
            return tuple(NameGlob(change(glob.text)) for glob in globs)

        push = self.push
        if push is not None:
            push = replace(push, repos=changed(push.repos), refs=changed(push.refs))
        return replace(self, fetch=changed(self.fetch), push=push)


def closed_paths(body: BodyPredicate | None) -> tuple[PathGlob, ...]:
    """Return the paths besides its own on which a plain rule would open what the predicate is about."""
    return CLOSED_PATHS if isinstance(body, GitPredicate) else ()


def _change_miss(push: PushTerms, change: RefChange) -> BodyMiss | None:
    """Return why an allow rule does not cover a change in one of its repositories."""
    if not _fits(push.refs, change.ref):
        return BodyMiss("git.ref", f"only refs {_listed(push.refs)}", 1)
    for option in change.options:
        if not any(glob.matches(option) for glob in push.options):
            return BodyMiss("git.option", f"only options {_listed(push.options)}", 2)
    match change.kind:
        case "create" if not push.create:
            return BodyMiss("git.create", "create: false", 2)
        case "delete" if not push.delete:
            return BodyMiss("git.delete", "delete: false", 2)
        case "update" if push.update == "fast-forward":
            if change.ref.startswith(_TAGS):
                return BodyMiss("git.tag", "update: fast-forward, which no tag is", 2)
            if not change.is_forward:
                return BodyMiss("git.forward", "update: fast-forward", 2)
    return None


def _is_about(push: PushTerms, repository: str) -> bool:
    return not push.repos or _fits(push.repos, repository, ignore_case=True)


def _denies(push: PushTerms, change: RefChange) -> bool:
    if push.refs and not _fits(push.refs, change.ref, ignore_case=True):
        return False
    return not push.options or any(
        glob.matches(option, ignore_case=True) for glob in push.options for option in change.options
    )


def _fits(globs: Iterable[NameGlob], name: str, *, ignore_case: bool = False) -> bool:
    return any(glob.matches(name, ignore_case=ignore_case) for glob in globs)


def _miss_repository(verb: str, globs: tuple[NameGlob, ...]) -> BodyMiss:
    return BodyMiss("git.repository", f"only {verb} of {_listed(globs)}" if globs else f"no {verb}")


def _listed(globs: Iterable[NameGlob | ValueGlob]) -> str:
    return ", ".join(glob.text for glob in globs) or "none"


def _push_fields(push: PushTerms) -> Mapping[str, FieldValue]:
    """Return the terms as they are written; those of a deny rule have no more than lists."""
    fields: dict[str, FieldValue] = {}
    for name, globs in (("repos", push.repos), ("refs", push.refs)):
        if globs:
            fields[name] = [glob.text for glob in globs]
    if not push.create:
        fields["create"] = False
    if push.update != "fast-forward":
        fields["update"] = push.update
    if push.delete:
        fields["delete"] = True
    if push.options:
        fields["options"] = [glob.text for glob in push.options]
    return fields
