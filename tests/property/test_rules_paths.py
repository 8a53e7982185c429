"""Paths, globs, hosts and the questions lint asks about them, against slow and obvious twins."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from egress.rules.compile.coverage_index import RuleIndex
from egress.rules.compile.overlap import path_covers, paths_may_meet, rule_covers, rules_may_meet
from egress.rules.decide import paths
from egress.rules.decide.entry import Rule
from egress.rules.decide.globs import GlobError, PathGlob, ValueGlob, path_glob
from egress.rules.decide.host_route import AllowGate, DenyGate, allow_path_fits, deny_path_fits
from egress.rules.decide.paths import PathError
from egress.rules.decide.predicates import Predicates
from egress.rules.language import hosts
from egress.rules.language.hosts import HostError, HostPattern
from egress.types import Head, Place, RuleRef
from tests.tiers import examples

# Strategies -----------------------------------------------------------------------------------

PIECES = ("a", "b", "B", "2", "F", "%3A", ":", "%2A", "%5B", "[", "%C3%A9", "-", "%2F", "+")
SEGMENT = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
PATH = st.lists(SEGMENT, min_size=1, max_size=5).map(lambda segments: "/" + "/".join(segments))
PATTERN_SEGMENT = st.one_of(
    st.just("**"),
    st.just("*"),
    st.lists(st.sampled_from((*PIECES, "*")), min_size=1, max_size=4).map("".join),
)
PATTERN = st.lists(PATTERN_SEGMENT, min_size=1, max_size=5).map(lambda segments: "/" + "/".join(segments))
ANY_TARGET = st.text(
    st.one_of(st.sampled_from("/.%;?#\\ 2eEfF5cC0*aZ~\x00\xff\u0100\ud800"), st.characters()), max_size=30
).map(lambda text: "/" + text)


def read(text: str) -> PathGlob:
    """The pattern, or this example is of no use."""
    try:
        return path_glob(text, encoded_slash=True)
    except GlobError:
        assume(False)
        raise


def canonical(text: str) -> str:
    try:
        return paths.canonical_path(text, strict=True, encoded_slash=True)
    except PathError:
        assume(False)
        raise


MANY = settings(max_examples=examples(400))


# The obvious matcher ---------------------------------------------------------------------------

CHARACTER = re.compile(r"%[0-9A-F]{2}|.", re.DOTALL)


def characters(segment: str) -> tuple[str, ...]:
    return tuple(CHARACTER.findall(segment))


@cache
def segment_fits(pattern: tuple[str, ...], segment: tuple[str, ...]) -> bool:
    if not pattern:
        return not segment
    if pattern[0] == "*":
        return segment_fits(pattern[1:], segment) or (bool(segment) and segment_fits(pattern, segment[1:]))
    return bool(segment) and pattern[0] == segment[0] and segment_fits(pattern[1:], segment[1:])


@cache
def path_fits(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return path_fits(pattern[1:], path) or (bool(path) and path_fits(pattern, path[1:]))
    if not path:
        return False
    first = path[0] != "" if pattern[0] == "*" else segment_fits(characters(pattern[0]), characters(path[0]))
    return first and path_fits(pattern[1:], path[1:])


def slow_allow(pattern: PathGlob, path: str) -> bool:
    return path_fits(pattern.segments, tuple(path[1:].split("/")))


def slow_deny(pattern: PathGlob, path: str) -> bool:
    """One more or one less slash at the end, a format, in lower case, reserved characters decoded."""
    plain = tuple(lowered(paths.loosened_path(segment)) for segment in pattern.segments)
    spellings = [plain]
    if plain[-1] == "":
        spellings.append(plain[:-1])
    if plain[-1] != "**":
        spellings.append((*plain, ""))
    named = plain[:-1] if plain[-1] in ("", "**") else plain
    if named and named[-1] and named[-1][-1] != "*":
        spellings += [(*named[:-1], named[-1] + ".*"), (*named[:-1], named[-1] + ".*", "")]
    text = lowered(paths.loosened_path(path.replace("*", "%2A")))
    asked = [text] if "%2F" not in text else [text, text.replace("%2F", "/")]
    return any(path_fits(spelling, tuple(one[1:].split("/"))) for spelling in spellings for one in asked)


def lowered(text: str) -> str:
    """Lower case, escapes excepted: their digits are not letters."""
    return re.sub(
        r"%[0-9A-F]{2}|.", lambda m: m[0] if m[0][0] == "%" else m[0].lower(), text, flags=re.DOTALL
    )


# Globs ----------------------------------------------------------------------------------------


@MANY
@given(PATTERN, PATH)
def test_an_allow_pattern_fits_what_the_obvious_matcher_fits(pattern: str, path: str) -> None:
    glob, asked = read(pattern), canonical(path)
    assert bool(re.match(glob.regex() + r"\Z", asked)) == slow_allow(glob, asked)


@MANY
@given(PATTERN, PATH)
def test_a_deny_pattern_fits_what_the_obvious_matcher_fits(pattern: str, path: str) -> None:
    from egress.rules.decide.verdicts import deny_readings

    glob, asked = read(pattern), canonical(path)
    fits = deny_path_fits(Predicates(paths=(glob,)), deny_readings(asked))
    assert fits == slow_deny(glob, asked)


@given(PATTERN, PATH)
def test_a_deny_fits_wherever_the_same_allow_fits(pattern: str, path: str) -> None:
    from egress.rules.decide.verdicts import deny_readings

    glob, asked = read(pattern), canonical(path)
    predicates = Predicates(paths=(glob,))
    if allow_path_fits(predicates, asked):
        assert deny_path_fits(predicates, deny_readings(asked))


@MANY
@given(st.lists(st.lists(PATTERN, min_size=1, max_size=2), min_size=1, max_size=5), PATH)
def test_the_combined_expressions_agree_with_each_rule_on_its_own(texts: list[list[str]], path: str) -> None:
    from egress.rules.decide.verdicts import deny_readings

    asked = canonical(path)
    rules = [
        Rule(
            RuleRef("h", f"r{n}", Place("f", 1, 1)),
            Predicates(paths=tuple(map(read, some)), encoded_slash=True),
        )
        for n, some in enumerate(texts)
    ]
    head = Head("GET", "https", "h", 443, asked)
    fitting, _ = AllowGate(rules).fitting(asked, "", head, 0)
    assert fitting == [rule for rule in rules if allow_path_fits(rule.predicates, asked)]
    loose = deny_readings(asked)
    denies = [rule for rule in rules if deny_path_fits(rule.predicates, loose)]
    assert DenyGate(rules).first(loose, "", head) == next(iter(denies), None)


@given(st.text("ab*", max_size=6), st.text("abAB", max_size=6))
def test_a_value_pattern_fits_what_the_obvious_matcher_fits(pattern: str, value: str) -> None:
    assert ValueGlob(pattern).matches(value) == segment_fits(tuple(pattern), tuple(value))
    folded = segment_fits(tuple(pattern.lower()), tuple(value.lower()))
    assert ValueGlob(pattern).matches(value, ignore_case=True) == folded


@pytest.mark.parametrize(
    "pattern",
    [
        "/**/a/**/a/**/a/**/b",
        "/*a*a*a*a*a*b",
        "/**/*a*b/**/*a*c",
        "/*%2F*%2F*x",
        "/**/a*/**/a*/**/a*/x",
        "/a/**/*/*/*/b",
    ],
)
@pytest.mark.parametrize(
    "path", ["/a" * 8000, "/" + "a" * 16000, "/" + "a%2F" * 4000, "/" + "aab" * 5000, "/ab" * 5000 + "/c"]
)
def test_the_worst_cases_come_to_an_end(pattern: str, path: str) -> None:
    glob = path_glob(pattern, encoded_slash=True)
    assert re.match(glob.regex() + r"\Z", path) is None or slow_enough(glob, path)
    deny_path_fits(Predicates(paths=(glob,)), (path,))


def slow_enough(glob: PathGlob, path: str) -> bool:
    """A match of a worst case is looked at again on its own ends: both must be what the pattern says."""
    last = glob.segments[-1].rpartition("*")[2]
    return path.endswith(last)


# Overlap --------------------------------------------------------------------------------------

SMALL_SEGMENTS = ["", "a", "b", "aa", "ab", "ba", "bb", "aab", "aba"]
SMALL_PATHS = [segments for n in (1, 2, 3) for segments in product(SMALL_SEGMENTS, repeat=n)]
# `/a/a/**` and `/**/b/*` first meet in four segments; these three are enough to witness any two of the globs.
SMALL_PATHS += product(("a", "b", "ab"), repeat=4)
SMALL_PATTERN = st.lists(
    st.sampled_from(["**", "*", "a", "b", "a*", "*b", "a*b", "*a*"]), min_size=1, max_size=3
).map(lambda segments: PathGlob("/" + "/".join(segments), tuple(segments)))


def matched(glob: PathGlob) -> set[tuple[str, ...]]:
    return {segments for segments in SMALL_PATHS if path_fits(glob.segments, segments)}


@MANY
@given(SMALL_PATTERN, SMALL_PATTERN)
def test_may_meet_says_what_brute_force_finds(one: PathGlob, other: PathGlob) -> None:
    assert paths_may_meet(one, other) == bool(matched(one) & matched(other))
    assert paths_may_meet(one, other) == paths_may_meet(other, one)


@MANY
@given(SMALL_PATTERN, SMALL_PATTERN)
def test_covers_is_sound_and_reflexive(one: PathGlob, other: PathGlob) -> None:
    assert path_covers(one, one)
    if path_covers(one, other):
        assert matched(other) <= matched(one)


METHODS = st.one_of(st.none(), st.frozensets(st.sampled_from(["GET", "PUT"]), min_size=1))
PREDICATES = st.builds(
    Predicates,
    methods=METHODS,
    paths=st.one_of(st.none(), st.lists(SMALL_PATTERN, min_size=1, max_size=2).map(tuple)),
)


def requests(predicates: Predicates) -> set[tuple[str, tuple[str, ...]]]:
    methods = predicates.methods or {"GET", "PUT", "POST"}
    globs = predicates.paths
    found = set(SMALL_PATHS) if globs is None else set().union(*map(matched, globs))
    return {(method, segments) for method in methods for segments in found}


@given(PREDICATES, PREDICATES)
def test_rules_that_meet_or_cover_are_told_soundly(one: Predicates, other: Predicates) -> None:
    assert rules_may_meet(one, other) == bool(requests(one) & requests(other))
    if rule_covers(one, other):
        assert requests(other) <= requests(one)


# Canonical spellings --------------------------------------------------------------------------


@given(ANY_TARGET, st.booleans(), st.booleans())
def test_the_canonical_path_is_canonical(text: str, strict: bool, encoded_slash: bool) -> None:
    text, _ = paths.split_target(text)  # as `decide` does: what stands behind the first `?` is the query
    try:
        once = paths.canonical_path(text, strict=strict, encoded_slash=encoded_slash)
    except PathError as error:
        is_quoted = len(text) > 8 and text in str(error)
        assert not is_quoted
        return
    assert paths.canonical_path(once, strict=strict, encoded_slash=encoded_slash) == once
    assert re.fullmatch(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@/\[\]-]|%[0-9A-F]{2})*", once)
    decoded = re.sub("%([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), once)
    assert encoded_slash or decoded.count("/") == once.count("/")
    assert not re.search(r"(?:^|/)\.\.?(?:/|$)", decoded)
    assert not re.search(r"[\x00-\x20\x7f#\\]", decoded)
    assert not re.search("%[0-9A-Fa-f]{2}", decoded)
    if strict:
        assert "//" not in once
        assert ";" not in decoded


@given(PATH)
def test_every_spelling_of_a_path_has_one_canonical_form(path: str) -> None:
    asked = canonical(path)
    spelled = re.sub(
        "%..|[a-zA-Z0-9-]", lambda m: m[0].lower() if m[0][0] == "%" else f"%{ord(m[0]):02x}", asked
    )
    assert paths.canonical_path(spelled, strict=True, encoded_slash=True) == asked


@given(st.text(max_size=40))
def test_the_canonical_query_is_canonical(text: str) -> None:
    try:
        once = paths.canonical_query("?" + text)
    except PathError:
        return
    assert paths.canonical_query(once) == once
    assert once.isascii()
    assert not re.search(r"[\x00-\x20\x7f#]", once)


NAME = st.text(st.one_of(st.sampled_from("aA0-_.*xn:[]@/%\x00。ｅü"), st.characters()), max_size=20)


@given(NAME)
def test_the_canonical_host_is_canonical(text: str) -> None:
    try:
        once = hosts.canonical_host(text)
    except HostError as error:
        is_quoted = len(text) > 6 and text in error.message
        assert not is_quoted
        return
    assert hosts.canonical_host(once) == hosts.canonical_wire_host(once) == once
    assert hosts.is_canonical(once)
    assert re.fullmatch(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", once)
    assert not hosts.is_address(once)


LABELS = st.lists(st.sampled_from(["a", "b", "com"]), min_size=1, max_size=4)
PATTERNS = st.builds(HostPattern, st.sampled_from([0, 1, 2]), LABELS.map(".".join))
NAMES = [".".join(labels) for n in range(1, 6) for labels in product(["a", "b", "com"], repeat=n)]


@given(PATTERNS, PATTERNS)
def test_a_host_pattern_covers_what_brute_force_finds(one: HostPattern, other: HostPattern) -> None:
    mine = {name for name in NAMES if one.matches(name)}
    others = {name for name in NAMES if other.matches(name)}
    if one.covers(other):
        assert others <= mine
    elif other.suffix.count(".") < 3:
        assert not others <= mine or one.stars == 1


@given(LABELS.map(".".join))
def test_the_candidates_of_a_host_are_the_patterns_that_match_it(name: str) -> None:
    found = list(hosts.candidate_patterns(name))
    assert len(set(found)) == len(found)
    suffixes = {".".join(name.split(".")[n:]) for n in range(name.count(".") + 1)}
    every = {HostPattern(stars, suffix) for stars in (0, 1, 2) for suffix in suffixes}
    assert set(found) == {pattern for pattern in every if pattern.matches(name)}


METHODS = st.one_of(st.none(), st.frozensets(st.sampled_from(("GET", "PUT"))))


@given(st.lists(st.tuples(METHODS, st.lists(PATTERN, max_size=3)), min_size=1, max_size=6))
@MANY
def test_the_index_finds_what_a_comparison_of_every_pair_finds(
    drawn: list[tuple[frozenset[str] | None, list[str]]],
) -> None:
    place = Place("hosts.yaml", 1, 1)
    rules = [
        Rule(
            RuleRef("a.example", f"r{number}", place),
            Predicates(methods, tuple(read(text) for text in texts) or None),
        )
        for number, (methods, texts) in enumerate(drawn)
    ]
    index = RuleIndex(rules)
    for narrow in rules:
        naive = [
            wide for wide in rules if wide is not narrow and rule_covers(wide.predicates, narrow.predicates)
        ]
        assert list(index.covering(narrow)) == naive
