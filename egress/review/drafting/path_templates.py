"""Path patterns from observed paths, with frequent identifiers generalised to `*`.

The paths of a method form a tree, one segment per level. At each level `MIN_IDENTIFIERS` identifiers of one
shape become one pattern; their subtrees are merged, and the same happens one level down. Words become `*`
only from `MIN_WORDS` on, never at the top level, and only if their subtrees are equal: `/repos/a/issues`,
`/repos/b/issues` and so on.

A pattern with `*` allows more than the observed paths. Each template records the kind and number of values
behind a `*`, so that every widening is visible. Without `generalising` only segments that must not be written
become `*`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from egress.review.drafting.path_identifiers import segment_shape
from egress.review.drafting.timeout import TimeoutCheck, no_timeout
from egress.rules.compile.overlap import path_covers
from egress.rules.decide.globs import PathGlob, path_glob

MIN_IDENTIFIERS = 3
MIN_WORDS = 20
MAX_DEPTH = 32
"""Segments after this level become `**`."""
MAX_PATTERNS = 300
"""Patterns per method; the rarest are left out."""
NAMES_LABEL = "names"
LONG_PATHS_LABEL = "the rest of long paths"

Stars = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A pattern with the numbers of its traffic."""

    pattern: str
    count: int
    """Number of requests."""
    paths: int
    """Number of different paths."""
    stars: Stars = ()
    """Kind and number of the values behind each `*`, from left to right."""

    @property
    def has_slash(self) -> bool:
        """True if a segment may contain `%2F`."""
        return "%2F" in self.pattern or self.is_slashed

    is_slashed: bool = False


@dataclass(slots=True)
class _Node:
    count: int = 0
    paths: int = 0
    slashed: bool = False
    rest: int = 0
    rest_paths: int = 0
    below: dict[str, _Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Found:
    segments: tuple[str, ...]
    count: int
    paths: int
    stars: Stars
    slashed: bool


@dataclass(frozen=True, slots=True)
class PathTemplates:
    """The patterns of one method, and the ones left out."""

    kept: tuple[PathTemplate, ...]
    left_out: tuple[PathTemplate, ...] = ()


def make_templates(
    paths: Mapping[str, int],
    cut: Mapping[str, int] | None = None,
    *,
    generalising: bool = True,
    check_timeout: TimeoutCheck = no_timeout,
) -> PathTemplates:
    """Make patterns from canonical paths with their counts.

    `cut` holds paths whose end is not in the log.
    """
    root = _Node()
    for path, count in paths.items():
        _add(root, path, count)
    for path, count in (cut or {}).items():
        # The last segment of a cut path may be incomplete, so it is dropped.
        _add(root, path.rpartition("/")[0] or "/", count, is_cut=True)
    found = [
        PathTemplate("/" + "/".join(one.segments), one.count, one.paths, one.stars, one.slashed)
        for one in _walk(root, 0, generalising=generalising)
    ]
    found.sort(key=lambda one: (-one.count, one.pattern))
    # The limit comes first, because the comparison of all pairs takes quadratic time.
    kept = _without_covered(found[:MAX_PATTERNS], check_timeout)
    return PathTemplates(tuple(sorted(kept, key=lambda one: one.pattern)), tuple(found[MAX_PATTERNS:]))


def _add(root: _Node, path: str, count: int, *, is_cut: bool = False) -> None:
    segments = path[1:].split("/")
    if is_cut and segments == [""]:
        segments = []
    node = root
    for segment in segments[:MAX_DEPTH]:
        node = node.below.setdefault(segment, _Node())
    node.slashed = node.slashed or "%2F" in path
    if is_cut or len(segments) > MAX_DEPTH:
        node.rest += count
        node.rest_paths += 1
    else:
        node.count += count
        node.paths += 1


def _walk(node: _Node, depth: int, *, generalising: bool) -> list[_Found]:
    found: list[_Found] = []
    if node.count:
        found.append(_Found((), node.count, node.paths, (), node.slashed))
    if node.rest:
        found.append(
            _Found(("**",), node.rest, node.rest_paths, ((LONG_PATHS_LABEL, node.rest_paths),), node.slashed)
        )
    # Identifiers first: the segments that stay are words, and are compared by their subtrees.
    words = dict(node.below)
    groups: dict[tuple[str, str], list[str]] = {}
    forced = set()
    for segment in node.below:
        shape = segment_shape(segment)
        if shape is not None:
            groups.setdefault((shape.pattern, shape.kind), []).append(segment)
            forced |= {(shape.pattern, shape.kind)} if shape.must else set()
    for (pattern, kind), segments in groups.items():
        if (pattern, kind) in forced or (generalising and len(segments) >= MIN_IDENTIFIERS):
            joined = _joined(words.pop(segment) for segment in segments)
            star = (kind, len(segments))
            found += _below(pattern, (star,), joined, depth, generalising=generalising)
    found += _words(words, depth, generalising=generalising)
    return found


def _below(pattern: str, stars: Stars, node: _Node, depth: int, *, generalising: bool) -> list[_Found]:
    return [
        _Found((pattern, *one.segments), one.count, one.paths, stars + one.stars, one.slashed)
        for one in _walk(node, depth + 1, generalising=generalising)
    ]


def _words(words: Mapping[str, _Node], depth: int, *, generalising: bool) -> list[_Found]:
    outcomes = {w: _below(w, (), node, depth, generalising=generalising) for w, node in words.items()}
    if not generalising or depth == 0 or len(words) < MIN_WORDS:
        return [one for found in outcomes.values() for one in found]
    # Words below which the same paths exist are names of one kind, such as repositories.
    alike: dict[frozenset[tuple[str, ...]], list[str]] = {}
    for word, found in outcomes.items():
        alike.setdefault(frozenset(one.segments[1:] for one in found), []).append(word)
    result: list[_Found] = []
    for same in alike.values():
        if len(same) < MIN_WORDS or "" in same:
            result += [one for word in same for one in outcomes[word]]
        else:
            joined = _joined(words[word] for word in same)
            result += _below("*", ((NAMES_LABEL, len(same)),), joined, depth, generalising=True)
    return result


def _joined(nodes: Iterable[_Node]) -> _Node:
    whole = _Node()
    for node in nodes:
        _join(whole, node)
    return whole


def _join(whole: _Node, node: _Node) -> None:
    """Merge a node into a node outside the tree."""
    whole.count += node.count
    whole.paths += node.paths
    whole.rest += node.rest
    whole.rest_paths += node.rest_paths
    whole.slashed = whole.slashed or node.slashed
    for segment, below in node.below.items():
        _join(whole.below.setdefault(segment, _Node()), below)


def _without_covered(found: list[PathTemplate], check_timeout: TimeoutCheck) -> list[PathTemplate]:
    """Remove patterns that a wider pattern covers, and add their counts to it."""
    globs = {one.pattern: path_glob(one.pattern, encoded_slash=True) for one in found}
    wide = [one for one in found if "*" in one.pattern]
    kept: dict[str, PathTemplate] = {}
    added: dict[str, tuple[int, int]] = {}
    for one in found:
        check_timeout()
        taker = next((w for w in wide if _takes_in(w, one, globs)), None)
        if taker is None:
            kept[one.pattern] = one
        else:
            count, paths = added.get(taker.pattern, (0, 0))
            added[taker.pattern] = (count + one.count, paths + one.paths)
    # A wide pattern may itself be covered by a wider one; its added counts are dropped with it.
    for pattern, (count, paths) in added.items():
        there = kept.get(pattern)
        if there is not None:
            kept[pattern] = PathTemplate(
                pattern, there.count + count, there.paths + paths, there.stars, there.is_slashed
            )
    return list(kept.values())


def _takes_in(wide: PathTemplate, one: PathTemplate, globs: Mapping[str, PathGlob]) -> bool:
    if wide is one or (one.has_slash and not wide.has_slash):
        return False
    there, here = globs[wide.pattern], globs[one.pattern]
    # Of two equivalent patterns the alphabetically first one stays.
    return path_covers(there, here) and not (path_covers(here, there) and wide.pattern > one.pattern)
