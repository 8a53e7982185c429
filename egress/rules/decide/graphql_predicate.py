"""The predicate `graphql`: operations by their type and root fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from egress.inspect.graphql.document import OperationType
from egress.inspect.graphql.envelope import RootField, StoredDocument
from egress.rules.decide.body_predicate import BodyMiss, FieldValue
from egress.rules.decide.github_scope import GithubScope
from egress.rules.decide.globs import ValueGlob

RootFieldGlobs = tuple[tuple[OperationType, tuple[ValueGlob, ...]], ...]
"""The root fields of each operation type that a rule names."""
INTROSPECTION_FIELDS = frozenset({"__schema", "__type"})
ANY_FIELD = ValueGlob("*")


@dataclass(frozen=True, slots=True)
class GraphqlPredicate:
    """Conditions on a GraphQL request."""

    types: RootFieldGlobs
    batch: int = 0
    """The largest array of envelopes; 0 for none."""
    introspection: bool = False
    get: bool = False
    persisted: tuple[tuple[str, tuple[tuple[OperationType, str], ...]], ...] = ()
    """Stored documents by digest, each with the root fields that it stands for."""
    no_fields: tuple[str, ...] = ()
    """Names of fields that no document may have below its root fields."""
    scope: GithubScope | None = None
    """The repositories that its root fields may reach; None for all that the credential can see."""

    @property
    def kind(self) -> str:
        return "graphql"

    def expanded(self, item: object) -> tuple[object, ...] | None:
        if not isinstance(item, StoredDocument):
            return None
        fields = dict(self.persisted).get(item.digest)
        if fields is None:
            return None
        return tuple(RootField(each, name, batch=item.batch, is_get=item.is_get) for each, name in fields)

    def misses(self, item: object) -> BodyMiss | None:
        if isinstance(item, StoredDocument):
            return BodyMiss("graphql.persisted", "only documents that are sent, or registered")
        if not isinstance(item, RootField):
            return BodyMiss("internal", "another kind of body")
        if not self._names(item):
            if item.name in INTROSPECTION_FIELDS and item.type == "query":
                return BodyMiss("graphql.introspection", "no introspection")
            shown = [f"{kind}.{glob.text}" for kind, globs in self.types for glob in globs]
            return BodyMiss("graphql.field", f"only root fields {', '.join(shown)}")
        if item.batch > self.batch:
            text = f"only batches of up to {self.batch}" if self.batch else "no batch"
            return BodyMiss("graphql.batch", text, nearness=1)
        if item.is_get and not self.get:
            return BodyMiss("graphql.url_parameters", "only POST", nearness=1)
        if not item.inner_fields.isdisjoint(self.no_fields):
            text = f"no inner field {', '.join(self.no_fields)}"
            return BodyMiss("graphql.inner_field", text, nearness=1)
        return None if self.scope is None or item.name.startswith("__") else self.scope.misses(item)

    def _names(self, item: RootField) -> bool:
        if item.name.startswith("__"):
            asks = item.type == "query" and item.name in INTROSPECTION_FIELDS
            return item.name == "__typename" or (asks and self.introspection)
        return any(glob.matches(item.name) for glob in dict(self.types).get(item.type, ()))

    def denies(self, item: object) -> bool:
        if not isinstance(item, RootField):
            return True
        globs = dict(self.types).get(item.type, ())
        # Servers compare names exactly; one that does not must not be a way around a deny.
        return any(glob.matches(item.name, ignore_case=True) for glob in globs)

    def fields(self) -> Mapping[str, FieldValue]:
        fields: dict[str, FieldValue] = {kind: _written(globs) for kind, globs in self.types}
        if self.batch:
            fields["batch"] = self.batch
        for name in ("introspection", "get"):
            if getattr(self, name):
                fields[name] = True
        if self.persisted:
            fields["persisted"] = {digest: _by_type(stored) for digest, stored in self.persisted}
        if self.no_fields:
            fields["no_fields"] = list(self.no_fields)
        return fields if self.scope is None else {**fields, **self.scope.fields()}

    def with_texts(self, change: Callable[[str], str]) -> Self:
        return self if self.scope is None else replace(self, scope=self.scope.with_texts(change))


def _written(globs: tuple[ValueGlob, ...]) -> FieldValue:
    return "any" if globs == (ANY_FIELD,) else [glob.text for glob in globs]


def _by_type(stored: tuple[tuple[OperationType, str], ...]) -> FieldValue:
    fields: dict[str, FieldValue] = {}
    for kind in dict.fromkeys(each for each, _ in stored):
        fields[kind] = [name for each, name in stored if each == kind]
    return fields
