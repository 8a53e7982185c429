"""Denies where each `%2F` of a path may be a slash or not."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.rules.decide.globs import deny_fits_any_reading, path_glob
from egress.rules.decide.host_route import deny_path_fits
from egress.rules.decide.paths import MAX_ESCAPED_SLASHES
from egress.rules.decide.predicates import Predicates
from tests.unit.rules.rule_samples import decision_text, policy


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/projects/*/hooks/**", "/projects/a%2Fb/hooks%2F1"),
        ("/projects/*/hooks/**", "/projects/a%2Fb%2Fhooks"),
        ("/projects/*/hooks/**", "/projects%2F1%2Fhooks"),
        ("/projects/*/merge", "/projects/a%2Fb%2FMERGE/"),
        ("/user/keys", "/user%2Fkeys"),
        ("/a%2Fb", "/a%2Fb"),
        ("/**/keys", "/x%2Fy%2Fkeys"),
    ],
)
def test_a_deny_holds_on_any_reading(pattern: str, path: str) -> None:
    assert deny_fits_any_reading(path_glob(pattern, encoded_slash=True), path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/projects/*/hooks/**", "/projects/a%2Fhook/s"),
        ("/user/keys", "/user%2Fkeysx"),
        ("/user/keys", "/user/k%2Feys"),
        ("/a/b/c", "/a%2Fb"),
    ],
)
def test_and_on_nothing_else(pattern: str, path: str) -> None:
    assert not deny_fits_any_reading(path_glob(pattern, encoded_slash=True), path)


SEGMENTS = st.lists(st.sampled_from(["a", "b", "*", "**", "a*"]), min_size=1, max_size=4)
PIECES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "ab"]), st.sampled_from(["/", "%2F"])), min_size=1, max_size=5
)


@given(SEGMENTS, PIECES)
def test_is_what_trying_every_reading_finds(segments: list[str], pieces: list[tuple[str, str]]) -> None:
    glob = path_glob("/" + "/".join(segments))
    path = "/" + "".join(part for piece in pieces for part in piece).removesuffix("/").removesuffix("%2F")
    parts = path.split("%2F")
    readings = [
        parts[0] + "".join(slash + part for slash, part in zip(slashes, parts[1:], strict=True))
        for slashes in product(("/", "%2F"), repeat=len(parts) - 1)
    ]
    predicates = Predicates(paths=(glob,))
    # One reading at a time: with a second one in the tuple the walk over pieces would be asked as well.
    expected = any(_plain_fits(predicates, reading) for reading in readings)
    assert deny_fits_any_reading(glob, path) == expected


def _plain_fits(predicates: Predicates, reading: str) -> bool:
    # A character that no pattern names stands for an escaped slash that is data.
    return deny_path_fits(predicates, (reading.replace("%2F", "~"),))


def test_more_than_a_canonical_path_can_have_is_denied() -> None:
    assert deny_fits_any_reading(
        path_glob("/nothing/like/it"), "/" + "%2F".join("a" * (MAX_ESCAPED_SLASHES + 2))
    )


def test_a_rule_that_takes_the_escaped_slash_cannot_be_used_to_pass_a_deny() -> None:
    rules = policy(
        """
        hosts:
          a.example.com:
            allow: [{id: all, paths: ["/**"], encoded_slash: data}]
            deny: [{id: hooks, paths: ["/projects/*/hooks/**"]}]
        """
    )
    assert decision_text(rules, "GET https://a.example.com/projects/a%2Fb/issues%2F1") == "allow all"
    for path in ("/projects/a%2Fb/hooks/1", "/projects/a%2Fb/hooks%2F1", "/projects%2Fa%2Fb%2Fhooks"):
        assert decision_text(rules, f"GET https://a.example.com{path}") == "deny hooks"
    for path in ("/projects/1/%2Fhooks", "/projects/1%2F%2Fhooks", "/projects/1%2F", "/%2Fprojects"):
        assert decision_text(rules, f"GET https://a.example.com{path}") == "deny path.ambiguous"


def test_as_many_escaped_slashes_as_a_path_may_have_are_looked_at() -> None:
    path = "/a" + "%2Fa" * MAX_ESCAPED_SLASHES
    assert not deny_fits_any_reading(path_glob("/x"), path)
    assert deny_fits_any_reading(path_glob("/**/a"), path)
    assert deny_fits_any_reading(path_glob("/x"), path + "%2Fa")
