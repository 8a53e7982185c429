"""The repositories of GitHub to which a rule on GraphQL is narrowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from egress.inspect.graphql.envelope import RootField
from egress.inspect.graphql.github.reach import Demand, Named
from egress.rules.decide.body_predicate import BodyMiss, FieldValue
from egress.rules.decide.name_glob import NameGlob

_EVERY_REPOSITORY = NameGlob("*/*")


@dataclass(frozen=True, slots=True)
class GithubScope:
    """Repositories by name, and the ids of those that are addressed by id as well."""

    repositories: tuple[NameGlob, ...]
    ids: tuple[tuple[str, int, str], ...] = ()
    """Names with their numbers, and the ids as they are written."""
    exempt: tuple[str, ...] = ()
    """Root fields to which the scope does not apply."""

    def misses(self, item: RootField) -> BodyMiss | None:
        """Return why a root field, with all that its document asks of it, is not within the scope."""
        if item.name in self.exempt:
            return None
        if item.reach is None:
            return BodyMiss("graphql.scope", "only documents that are sent", nearness=2)
        reach = item.reach.of(item.type, item.name)
        if reach.code:
            return BodyMiss(reach.code, reach.detail, nearness=2, about=f": {reach.detail}")
        for demand in reach.demands:
            if not self._covers(demand):
                text = f"only repositories {', '.join(glob.text for glob in self.repositories)}"
                return BodyMiss("graphql.scope", text, nearness=2, about=f" {demand}")
        return None

    def _covers(self, demand: Demand) -> bool:
        if isinstance(demand, Named):
            return self._names(demand.name)
        if _EVERY_REPOSITORY in self.repositories:
            return True
        return any(number == demand.number and self._names(name) for name, number, _ in self.ids)

    def _names(self, name: str) -> bool:
        # GitHub takes names in any case.
        return any(glob.matches(name, ignore_case=True) for glob in self.repositories)

    def with_texts(self, change: Callable[[str], str]) -> GithubScope:
        """Return the scope with each name changed in which a placeholder may stand."""
        return replace(self, repositories=tuple(NameGlob(change(glob.text)) for glob in self.repositories))

    def fields(self) -> Mapping[str, FieldValue]:
        """Return the scope as it is written beside the root fields."""
        scope: dict[str, FieldValue] = {"github": [glob.text for glob in self.repositories]}
        if self.ids:
            scope["ids"] = [f"{name}={text}" for name, _, text in self.ids]
        fields: dict[str, FieldValue] = {"scope": scope}
        return fields | ({"scope_exempt": list(self.exempt)} if self.exempt else {})
