"""Index of rules by path: which of thousands cover all requests of another.

Comparing every pair of rules takes minutes on a host with thousands of them. A tree of path segments leaves
only a few paths to compare: a literal segment of a rule covers nothing but itself, so most branches are
never entered. Below a `**` the tree cannot look at segments one by one, so those patterns are told apart by
their last segment alone.

Some sets of patterns defeat the tree, such as thousands of segments like `a*`, `aa*`, `aaa*`. So the search
for each path stops after a number of steps: a lint may miss a finding, it must not take minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from egress.rules.compile.overlap import path_covers, segment_covers, values_cover
from egress.rules.decide.entry import Rule
from egress.rules.decide.globs import PathGlob

MAX_STEPS_PER_PATH: Final = 64
"""Comparisons made for a path before the search gives up."""
MAX_RULES_FOUND: Final = 16
"""Rules given out for a rule: the first ones are enough to tell a user which rule to remove."""

Patterns = dict[PathGlob, list[int]]
"""Path patterns, with the numbers of their rules."""


class _Node:
    """Patterns that begin with the same segments."""

    __slots__ = ("anywhere", "by_last", "ends", "globs", "literals")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.globs: dict[str, _Node] = {}
        self.ends: list[int] = []
        """Rules with a pattern that ends here."""
        self.anywhere: Patterns = {}
        """Patterns with a `**` here, and a wildcard at their end."""
        self.by_last: dict[str, Patterns] = {}
        """Patterns with a `**` here, by their last segment."""


class RuleIndex:
    """Rules, found by what they cover."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Rules that look inside of requests are left out: they cover no other rule."""
        self._root = _Node()
        self._rules = tuple(rules)
        self._everywhere: list[int] = []
        for number, rule in enumerate(self._rules):
            # What a rule with placeholders covers depends on the sandbox.
            if rule.predicates.looks_inside or rule.predicates.body or rule.template is not None:
                continue
            if rule.predicates.paths is None:
                self._everywhere.append(number)
            for path in rule.predicates.paths or ():
                self._add(number, path)

    def covering(self, narrow: Rule) -> Iterator[Rule]:
        """Yield other rules that cover this one, in their order, as far as they are found soon enough."""
        numbers = set(self._everywhere[:MAX_STEPS_PER_PATH])
        paths = narrow.widest.paths
        if paths:
            # A rule covers another where it covers each of its paths.
            common = self._with_path(paths[0])
            for path in paths[1:]:
                if not common:
                    break
                common &= self._with_path(path)
            numbers |= common
        others = [self._rules[number] for number in sorted(numbers)]
        wider = (each for each in others if values_cover(each.predicates, narrow.widest))
        yield from islice((each for each in wider if each is not narrow), MAX_RULES_FOUND)

    def _add(self, number: int, path: PathGlob) -> None:
        node = self._root
        for segment in path.segments:
            if segment == "**":
                last = path.segments[-1]
                patterns = node.anywhere if "*" in last else node.by_last.setdefault(last, {})
                patterns.setdefault(path, []).append(number)
                return
            branch = node.globs if "*" in segment else node.literals
            node = branch.setdefault(segment, _Node())
        node.ends.append(number)

    def _with_path(self, path: PathGlob) -> set[int]:
        """Return the numbers of rules with a pattern that covers this path."""
        segments, last = path.segments, path.segments[-1]
        numbers: set[int] = set()
        waiting, left = [(self._root, 0)], MAX_STEPS_PER_PATH
        while waiting and left > 0:
            node, depth = waiting.pop()
            # `/a/**` covers `/a` too, so these are compared behind the last segment as well.
            near = list(islice(chain(node.anywhere.items(), node.by_last.get(last, {}).items()), left))
            left -= 1 + len(near)
            for pattern, found in near:
                if path_covers(pattern, path):
                    numbers.update(found[:MAX_STEPS_PER_PATH])
            if depth == len(segments):
                # Each segment on the way here was covered, so the whole path is.
                numbers.update(node.ends[:MAX_STEPS_PER_PATH])
                continue
            globs = list(islice(node.globs.items(), max(left, 0)))
            left -= len(globs)
            waiting += [(child, depth + 1) for glob, child in globs if segment_covers(glob, segments[depth])]
            below = node.literals.get(segments[depth])
            if below is not None:
                waiting.append((below, depth + 1))
        return numbers
