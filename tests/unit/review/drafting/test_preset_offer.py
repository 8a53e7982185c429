"""A preset that is offered for a new host: the right one, tried, and none where nothing points at one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egress.policy.bundled_presets import preset_texts
from egress.review.drafting.observation import observe
from egress.review.drafting.preset_offer import PresetOffer
from egress.review.drafting.suggest import Suggestion, suggest
from egress.rules.compile.load import RuleText, load
from tests.unit.review.drafting.sample import NOW, denied, refusal

RULES = "version: 1\nhosts:\n  own.example.com: {}\n"


def asked(line: dict[str, object], rules: str = RULES) -> Suggestion:
    one = observe(line)
    assert one is not None
    return suggest(one, "", [RuleText("hosts.yaml", rules)], preset_texts(), NOW)


def offered(host: str, path: str, method: str = "GET", **fields: object) -> PresetOffer | None:
    return asked(denied("host.unknown", method, host, path, **fields)).preset


@pytest.mark.parametrize(
    ("path", "preset"),
    [
        ("/simple/widgets/", "python-index"),
        ("/repository/main/simple/", "python-index"),
        ("/team/mirror/+simple/widgets/", "python-index"),
        ("/packages/ab/cd/widgets-1.0-py3-none-any.whl", "python-index"),
        ("/packages/ab/cd/widgets-1.0-py3-none-any.whl.metadata", "python-index"),
        ("/config.json", "cargo-index"),
        ("/wi/dg/widgets", "cargo-index"),
        ("/index/3/w/wid", "cargo-index"),
        ("/2/wi", "cargo-index"),
        ("/crates/widgets/widgets-1.0.0.crate", "cargo-index"),
        ("/api/v1/crates/widgets/1.0.0/download", "cargo-index"),
        ("/example.com/acme/widgets/@v/list", "go-proxy"),
        ("/example.com/acme/widgets/@latest", "go-proxy"),
        ("/lookup/example.com@v1.0.0", "go-proxy"),
        ("/debian/dists/stable/InRelease", "apt-archive"),
        ("/debian/pool/main/w/widgets/widgets_1.0_amd64.deb", "apt-archive"),
        ("/widgets/-/widgets-1.0.0.tgz", "npm-index"),
        ("/@acme%2Fwidgets", "npm-index"),
    ],
)
def test_a_package_index_is_known_by_what_is_asked_of_it(path: str, preset: str) -> None:
    found = offered("new.example.org", path)
    assert found is not None
    assert found.name == preset
    assert found.where == "hosts.yaml, at its end, under `use`"


def test_the_name_of_a_host_tells_what_a_path_does_not() -> None:
    found = offered("registry.example.org", "/widgets")
    assert found is not None
    assert found.name == "npm-index"
    assert offered("www.example.org", "/widgets") is None


@pytest.mark.parametrize(
    "path", ["/", "/user", "/wi/xx/widgets", "/a/b/c", "/simple", "/v1/simple-things", "/@me"]
)
def test_other_paths_point_at_no_preset(path: str) -> None:
    assert offered("new.example.org", path) is None


def test_an_archive_in_clear_text_is_offered_as_one() -> None:
    path = "/debian/dists/stable/InRelease"
    found = offered("new.example.org", path, scheme="http", port=80)
    assert found is not None
    assert found.yaml[-1] == "  - { apt-archive: {clear_text: [new.example.org]} }"


def test_what_is_offered_can_be_pasted_and_allows_the_request() -> None:
    answer = asked(denied("host.unknown", "GET", "new.example.org", "/simple/widgets/"))
    assert answer.preset is not None
    assert answer.preset.title == "A Python package index, for reading"
    text = RULES + "\n".join(answer.preset.yaml) + "\n"
    assert load([RuleText("hosts.yaml", text)], preset_texts(), NOW).policy is not None
    one = observe(denied("host.unknown", "GET", "new.example.org", "/simple/widgets/"))
    assert one is not None
    again = suggest(one, "", [RuleText("hosts.yaml", text)], preset_texts(), NOW)
    assert again.refusal == "the current rules allow it"
    # The smallest change is still the first answer.
    assert answer.steps[0].yaml == ("  new.example.org: { methods: [GET], paths: [/simple/widgets/] }",)


def test_a_preset_that_names_the_host_is_offered_by_its_name() -> None:
    found = offered("api.github.com", "/repos/acme/widgets")
    assert found is not None
    assert found.yaml == ("", "use:", "  - github")
    assert asked(refusal("host.unknown", "api.github.com", 0, "dns")).preset is not None


@pytest.mark.parametrize(
    ("method", "host", "path"),
    [
        # Its preset denies that.
        ("GET", "api.github.com", "/user/keys"),
        # No preset for reading allows that.
        ("PUT", "new.example.org", "/simple/widgets/"),
        # A part of the name of another host.
        ("GET", "github", "/repos/acme/widgets"),
    ],
)
def test_what_a_preset_does_not_allow_is_not_offered(method: str, host: str, path: str) -> None:
    assert offered(host, path, method) is None


def test_a_host_that_the_rules_name_is_changed_and_no_preset_taken() -> None:
    line = denied("rule.none", "GET", "own.example.com", "/simple/widgets/")
    assert (
        asked(line, "version: 1\nhosts:\n  own.example.com: {allow: [{id: a, paths: [/b]}]}\n").preset is None
    )


def test_beside_a_profile_without_the_host_no_preset_is_offered() -> None:
    """It alone would not allow the request."""
    rules = RULES + "profiles: { default: { hosts: [own.example.com] } }\n"
    assert asked(denied("host.unknown", "GET", "new.example.org", "/simple/widgets/"), rules).preset is None


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.sampled_from(["", "simple", "@v", "-", "1", "a", "@a%2Fb", "x.whl", "lookup", "é"]), max_size=5
    )
)
def test_any_path_gets_an_answer(segments: list[str]) -> None:
    offered("new.example.org", "/" + "/".join(segments))
