"""`canaries:` in a rule file."""

from __future__ import annotations

import pytest

from egress.rules.compile.canaries import MAX_TEXT_CHARS, RESERVED_VARIABLES
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import as_text
from egress.rules.decide.policy import CANARY_VALUE_MARK, CanarySpec

TEXT = "version: 1\ncanaries:\n  decoy: { like: aws }\n  trap: { like: github, stop: true }\n"
PLANTED = """\
version: 1
canaries:
  key: { like: aws, env: AWS_ACCESS_KEY_ID, file: ~/.aws/credentials, text: "[default]\\nkey = {value}\\n" }
  netrc: { like: hex32, file: /srv/app/.netrc }
"""


def test_canaries_are_read_by_name_shape_and_what_follows() -> None:
    policy = load([RuleText("hosts.yaml", TEXT)]).policy
    assert policy is not None
    assert [(each.name, each.like, each.stop) for each in policy.canaries] == [
        ("decoy", "aws", False),
        ("trap", "github", True),
    ]
    decoy, _ = policy.canaries
    assert (str(decoy.place), decoy.env, decoy.file, decoy.text) == (
        "hosts.yaml:3:3",
        "",
        "",
        CANARY_VALUE_MARK,
    )


def test_what_is_shown_means_the_same() -> None:
    policy = load([RuleText("hosts.yaml", TEXT)]).policy
    assert policy is not None
    again = load([RuleText("shown", as_text(policy))]).policy
    assert again is not None
    assert [(e.name, e.like, e.stop) for e in again.canaries] == [
        (e.name, e.like, e.stop) for e in policy.canaries
    ]


def canaries(text: str) -> tuple[CanarySpec, ...]:
    loaded = load([RuleText("hosts.yaml", text)])
    assert loaded.policy is not None, [str(finding) for finding in loaded.findings]
    return loaded.policy.canaries


def complaints(*items: str) -> list[tuple[str, str]]:
    """Where and what is wrong with canaries that are written like this, one under the other."""
    text = "version: 1\ncanaries:\n" + "".join(f"  c{number}: {item}\n" for number, item in enumerate(items))
    loaded = load([RuleText("h", text)])
    assert loaded.policy is None or not loaded.findings
    return [(str(finding.place), finding.message) for finding in loaded.findings]


def test_where_one_is_planted_is_read() -> None:
    key, netrc = canaries(PLANTED)
    assert (key.env, key.file, key.text) == (
        "AWS_ACCESS_KEY_ID",
        "~/.aws/credentials",
        "[default]\nkey = {value}\n",
    )
    assert (netrc.env, netrc.file, netrc.text) == ("", "/srv/app/.netrc", CANARY_VALUE_MARK)


def test_where_one_is_planted_is_shown() -> None:
    [policy] = [load([RuleText("hosts.yaml", PLANTED)]).policy]
    assert policy is not None
    again = canaries(as_text(policy))
    assert [(e.env, e.file, e.text) for e in again] == [(e.env, e.file, e.text) for e in canaries(PLANTED)]


@pytest.mark.parametrize("name", ["1KEY", "A-B", "", "A B", "KÉY", "N" * 129, "A=B", "A\\nB"])
def test_a_variable_has_a_name_that_shells_take(name: str) -> None:
    [(place, message)] = complaints(f'{{ like: aws, env: "{name}" }}')
    assert place == "h:3:25"
    assert "is not the name of a variable" in message


@pytest.mark.parametrize("name", sorted({*RESERVED_VARIABLES, "LD_PRELOAD", "LD_LIBRARY_PATH"}))
def test_a_variable_that_a_sandbox_needs_is_not_taken(name: str) -> None:
    [(_, message)] = complaints(f"{{ like: aws, env: {name} }}")
    assert "sandboxes need themselves" in message


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/",
            "~",
            "~/",
            "relative",
            "./a",
            "../a",
            "~other/a",
            "/a/",
            "/a//b",
            "/a/./b",
            "/a/../b",
            "~/..",
        ),
        *("/a\\nb", "/a\\x00b", "/a\\x1b[2Jb", "/" + "n" * 256, "/" + "é" * 128, "/names" * 200),
    ],
)
def test_a_file_has_a_plain_path(path: str) -> None:
    [(place, message)] = complaints(f'{{ like: aws, file: "{path}" }}')
    assert place == "h:3:26"
    assert "is not a file in a sandbox" in message
    assert message.isprintable()


@pytest.mark.parametrize(
    "path", ["/proc/1/x", "/dev/shm/x", "/sys/x", "/run/x", "/etc/egress/ca.pem", "/proc", "/.egress/x"]
)
def test_nothing_is_planted_where_the_system_is(path: str) -> None:
    [(_, message)] = complaints(f"{{ like: aws, file: {path} }}")
    assert "a canary cannot be planted" in message
    assert complaints("{ like: aws, file: /process/a }", "{ like: aws, file: /etc/egress.conf }") == []


@pytest.mark.parametrize(
    "text", ["", "no value", "{value}{value}", "{ value }", "{value}\\x00", "{value}\\r\\n"]
)
def test_a_text_holds_the_value_once(text: str) -> None:
    [(place, _)] = complaints(f'{{ like: aws, file: /a, text: "{text}" }}')
    assert place.startswith("h:3:")


def test_a_text_has_an_end() -> None:
    most = "x" * (MAX_TEXT_CHARS - len(CANARY_VALUE_MARK))
    assert complaints(f'{{ like: aws, file: /a, text: "{most}{{value}}" }}') == []
    [(_, message)] = complaints(f'{{ like: aws, file: /a, text: "x{most}{{value}}" }}')
    assert str(MAX_TEXT_CHARS) in message


def test_a_path_has_an_end() -> None:
    most = "/names" * 170 + "/abc"
    assert len(most) == 1024
    assert complaints(f"{{ like: aws, file: {most} }}") == []
    [(_, message)] = complaints(f"{{ like: aws, file: {most}d }}")
    assert "is not a file in a sandbox" in message
    assert complaints(f"{{ like: aws, file: /{'n' * 255} }}") == [], "what a name in a folder may have"


def test_a_text_without_a_file_is_none() -> None:
    [(_, message)] = complaints('{ like: aws, text: "a={value}" }')
    assert "`file` is missing" in message


@pytest.mark.parametrize("key", ["env", "file", "text"])
def test_a_credential_that_was_written_down_is_not_shown(key: str) -> None:
    real = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    found = complaints(f'{{ like: aws, file: /a, {key}: "{real}" }}'.replace("file: /a, file", "file"))
    assert any("looks like a credential" in message for _, message in found)
    assert not any(real in message for _, message in found)


def test_nor_is_one_that_stands_in_a_path() -> None:
    real = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    [(_, message)] = complaints(f"{{ like: aws, file: /keys/{real} }}")
    assert "looks like a credential" in message
    assert real not in message


def test_two_in_one_place_would_be_one() -> None:
    for first, second in (("env: KEY", "env: KEY"), ("file: /a", "file: /a"), ("file: /a", "file: /a/b")):
        for one, other in ((first, second), (second, first)):
            [(place, message)] = complaints(f"{{ like: aws, {one} }}", f"{{ like: aws, {other} }}")
            assert place.startswith("h:4:")
            assert "`c0` is already planted there (at h:3:3)" in message
    assert complaints("{ like: aws, file: /a }", "{ like: aws, file: /ab }") == []
    over = [
        RuleText("a", PLANTED),
        RuleText("b", PLANTED.replace("key:", "two:").replace("netrc:", "three:")),
    ]
    assert [str(one.place) for one in load(over).findings] == ["b:3:26", "b:3:51", "b:4:31"]


def test_mistakes_are_told() -> None:
    wrong = "version: 1\ncanaries:\n  Bad: { like: aws }\n  b: { like: gold }\n  c: {}\n  d!: { like: aws }\n"
    places = [str(one.place) for one in load([RuleText("h", wrong)]).findings]
    assert places == ["h:3:3", "h:4:14", "h:5:3", "h:6:3"]


def test_the_same_name_in_two_files_is_a_conflict() -> None:
    loaded = load([RuleText("a", TEXT), RuleText("b", TEXT)])
    assert loaded.policy is None
    assert loaded.findings[0].message == "duplicate canary `decoy` (first at a:3:3)"
