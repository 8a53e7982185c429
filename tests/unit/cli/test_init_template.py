"""Every text that `egress init` can write is sound: it loads, its tests pass, it opens only what it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.cli.discover import (
    DOTENV,
    ENVIRONMENT,
    GH,
    VARIABLES,
    ConfiguredHost,
    DiscoveredSetup,
    TokenSource,
)
from egress.cli.init_template import SCHEMA_LINE, summary, text
from egress.cli.url_host import Repository, UrlHost
from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.rule_tests import run_rule_tests
from egress.rules.decide.policy import Policy
from tests.unit.rules.rule_samples import NOW, decision_text

NOTHING = DiscoveredSetup(tokens={})
EVERYTHING = DiscoveredSetup(
    tokens={name: TokenSource(variables[0], ENVIRONMENT) for name, variables in VARIABLES.items()},
    repositories=(
        Repository("github.com", "acme/widgets"),
        Repository("gitlab.example.com", "acme/tools/forge"),
        Repository("git.example.com", "acme/elsewhere"),
    ),
    python=(
        ConfiguredHost(UrlHost("index.example.com", 443, "https", had_user=True), "~/.config/pip/pip.conf"),
    ),
    npm=(ConfiguredHost(UrlHost("npm.example.com", 443, "https", had_user=False), "~/.npmrc"),),
    cargo=(ConfiguredHost(UrlHost("crates.example.com", 443, "https", had_user=False), "`cargo`"),),
    go=(ConfiguredHost(UrlHost("modules.example.com", 443, "https", had_user=False), "`go`"),),
    apt=(ConfiguredHost(UrlHost("archive.example.com", 80, "http", had_user=False), "`apt-get`"),),
    other_names=("STRIPE_SECRET_KEY",),
)


def sound(found: DiscoveredSetup) -> Policy:
    """The policy of what would be written: without an error, a warning or a failing test."""
    loaded = load([RuleText("hosts.yaml", text(found, with_schema=True))], preset_texts(), NOW)
    assert loaded.policy is not None, loaded.findings
    assert loaded.findings == ()
    assert loaded.policy.cases
    assert [result.problem for result in run_rule_tests(loaded.policy, NOW) if result.problem] == []
    return loaded.policy


def configured(
    host: str, port: int = 443, scheme: str = "https", *, told_by: str = "pip.conf", folder: bool = False
) -> ConfiguredHost:
    where = UrlHost(host, port, "https" if scheme == "https" else "http", had_user=False)
    return ConfiguredHost(where, told_by, folder)


def test_nothing_found_allows_nothing() -> None:
    rules = sound(NOTHING)
    assert rules.entries == {}
    assert rules.secrets == {}


def test_everything_found_is_sound() -> None:
    rules = sound(EVERYTHING)
    services = {"anthropic", "openai", "gemini", "copilot", "huggingface"}
    assert set(rules.secrets) == {"github", "gitlab", *services}
    issues = "https://api.github.com/repos/acme/widgets/issues"
    assert decision_text(rules, f"GET {issues}") == "allow github-read, inject github"
    assert decision_text(rules, f"POST {issues}") == "deny rule.none"
    assert decision_text(rules, "GET https://api.github.com/repos/other/thing/issues") == "deny rule.none"
    assert decision_text(rules, "GET https://npm.example.com/left-pad").startswith("allow")
    assert decision_text(rules, "PUT https://npm.example.com/left-pad") == "deny rule.none"
    assert decision_text(rules, "GET https://git.example.com/") == "deny host.unknown"
    branches = "https://gitlab.example.com/api/v4/projects/acme%2Ftools%2Fforge/repository/branches"
    assert decision_text(rules, f"GET {branches}") == "allow gitlab-read, inject gitlab"


def test_a_token_without_repositories_reads_what_the_token_reads() -> None:
    rules = sound(DiscoveredSetup(tokens={"github": TokenSource("GITHUB_TOKEN", ENVIRONMENT)}))
    assert decision_text(rules, "GET https://api.github.com/repos/any/thing/issues").startswith("allow")
    assert decision_text(rules, "POST https://api.github.com/repos/any/thing/issues") == "deny rule.none"


def test_repositories_without_a_token_say_what_is_missing() -> None:
    found = DiscoveredSetup(tokens={}, repositories=(Repository("github.com", "acme/widgets"),))
    sound(found)
    assert "No token was found: set GITHUB_TOKEN" in text(found, with_schema=False)


@pytest.mark.parametrize(
    ("token", "line"),
    [
        (TokenSource("GH_TOKEN", ENVIRONMENT), "from: env:GH_TOKEN   # set in the environment"),
        (TokenSource("", GH), "from: { command: [gh, auth, token] }   # gh is signed in on this machine"),
        (TokenSource("GITHUB_TOKEN", DOTENV), "from: env:GITHUB_TOKEN   # named in .env: load that file"),
    ],
)
def test_a_secret_is_written_as_where_it_comes_from(token: TokenSource, line: str) -> None:
    found = DiscoveredSetup(tokens={"github": token})
    sound(found)
    assert line in text(found, with_schema=False)


def test_writing_is_left_to_be_uncommented_and_then_is_sound() -> None:
    written = text(EVERYTHING, with_schema=True)
    assert "# write: [acme/widgets]" in written
    opened = written.replace("# write:", "write:")
    loaded = load([RuleText("hosts.yaml", opened)], preset_texts(), NOW)
    assert loaded.policy is not None, loaded.findings
    request = "POST https://api.github.com/repos/acme/widgets/issues"
    assert decision_text(loaded.policy, request) == "allow github-create, inject github"


def test_every_comment_that_offers_a_line_offers_a_sound_one() -> None:
    """With all of `use` and `hosts` uncommented the file still loads."""
    lines = []
    for line in text(NOTHING, with_schema=False).splitlines():
        offered = line.strip().removeprefix("# ")
        is_offer = offered.startswith(("- ", "use:", "hosts:", "docs.example.com", '"*.static'))
        lines.append(line.replace("# ", "", 1) if is_offer and line.strip().startswith("#") else line)
    loaded = load([RuleText("hosts.yaml", "\n".join(lines))], preset_texts(), NOW)
    assert loaded.policy is not None, loaded.findings
    assert len(loaded.policy.entries) > 5


def test_what_only_the_folder_names_stays_a_comment() -> None:
    found = DiscoveredSetup(tokens={}, npm=(configured("npm.example.com", told_by=".npmrc", folder=True),))
    assert sound(found).entries == {}
    assert "# - npm-index: { registry: npm.example.com }" in text(found, with_schema=False)
    odd = DiscoveredSetup(
        tokens={}, npm=(configured("npm.example.com", 8443, told_by=".npmrc", folder=True),)
    )
    assert sound(odd).entries == {}


def test_the_users_registry_is_taken_and_the_folders_beside_it_is_not() -> None:
    found = DiscoveredSetup(
        tokens={}, npm=(configured("npm.example.com"), configured("evil.example.net", folder=True))
    )
    rules = sound(found)
    assert [entry.key for entry in rules.entries.values()] == ["npm.example.com"]


@pytest.mark.parametrize(
    ("sites", "allowed", "denied"),
    [
        (
            [("index.example.com", 8443, "https")],
            ["https://index.example.com:8443/"],
            ["https://index.example.com/"],
        ),
        ([("index.example.com", 80, "http")], ["http://index.example.com/"], ["https://index.example.com/"]),
        (
            [
                ("index.example.com", 443, "https"),
                ("index.example.com", 8443, "https"),
                ("index.example.com", 3141, "http"),
            ],
            [
                "https://index.example.com/",
                "https://index.example.com:8443/",
                "http://index.example.com:3141/",
            ],
            ["http://index.example.com/"],
        ),
    ],
)
def test_unusual_ports_get_an_entry_of_their_own(
    sites: list[tuple[str, int, str]], allowed: list[str], denied: list[str]
) -> None:
    rules = sound(DiscoveredSetup(tokens={}, python=tuple(configured(*where) for where in sites)))
    for url in allowed:
        assert decision_text(rules, f"GET {url}").startswith("allow")
        assert decision_text(rules, f"PUT {url}") == "deny rule.none"
    for url in denied:
        assert decision_text(rules, f"GET {url}").startswith("deny")


@pytest.mark.parametrize("host", ["github.com", "api.github.com", "gitlab.com", "api.openai.com"])
def test_a_host_that_gets_a_token_is_never_opened_as_a_whole(host: str) -> None:
    """An index on a forge: its preset would send the token with every GET."""
    tokens = {name: TokenSource(variables[0], ENVIRONMENT) for name, variables in VARIABLES.items()}
    rules = sound(DiscoveredSetup(tokens=tokens, python=(configured(host),), npm=(configured(host, 8443),)))
    assert decision_text(rules, f"GET https://{host}/anything/at/all").startswith("deny")


def test_one_host_may_be_an_index_for_both() -> None:
    rules = sound(
        DiscoveredSetup(
            tokens={}, python=(configured("repo.example.com"),), npm=(configured("repo.example.com"),)
        )
    )
    assert decision_text(rules, "GET https://repo.example.com/simple/x").startswith("allow")


def test_the_schema_line_comes_first_or_not_at_all() -> None:
    assert text(NOTHING, with_schema=True).startswith(SCHEMA_LINE)
    assert SCHEMA_LINE not in text(NOTHING, with_schema=False)


def test_a_hostile_file_name_stays_inside_its_comment() -> None:
    name = "x\nhosts: {evil.example.net: {}}\n\x1b[2J"
    rules = sound(DiscoveredSetup(tokens={}, python=(configured("index.example.com", 8443, told_by=name),)))
    assert [entry.key for entry in rules.entries.values()] == ["index.example.com"]


def test_a_url_that_had_a_user_is_said_to_have_lost_it() -> None:
    assert "# A user or token in the URL was skipped. If the index needs it" in text(
        EVERYTHING, with_schema=True
    )


def test_the_summary_names_everything_once() -> None:
    assert summary(NOTHING) == []
    assert summary(EVERYTHING) == [
        "github: GITHUB_TOKEN, set in the environment",
        "gitlab: GITLAB_TOKEN, set in the environment",
        "anthropic: ANTHROPIC_API_KEY, set in the environment",
        "openai: OPENAI_API_KEY, set in the environment",
        "gemini: GEMINI_API_KEY, set in the environment",
        "copilot: COPILOT_GITHUB_TOKEN, set in the environment",
        "huggingface: HF_TOKEN, set in the environment",
        "github: acme/widgets, from the git remotes",
        "gitlab: acme/tools/forge, from the git remotes",
        "pip: index.example.com, from ~/.config/pip/pip.conf",
        "npm: npm.example.com, from ~/.npmrc",
        "cargo: crates.example.com, from `cargo`",
        "go: modules.example.com, from `go`",
        "apt: archive.example.com, from `apt-get`",
    ]


HOSTS = st.sampled_from(
    [
        "index.example.com",
        "npm.example.com",
        "github.com",
        "gitlab.com",
        "no.example",
        "xn--bcher-kva.example",
        "-a.example",
    ]
)
SITES = st.builds(
    ConfiguredHost,
    st.builds(
        UrlHost,
        HOSTS,
        st.sampled_from([443, 80, 8443]),
        st.sampled_from(["https", "http"]),
        st.booleans(),
    ),
    st.sampled_from(["~/.npmrc", "a # b", "x: y"]),
    st.booleans(),
)
PARTS = st.text(st.sampled_from("abn019._-"), min_size=1, max_size=8).filter(
    lambda part: part not in (".", "..")
)
REPOSITORIES = st.builds(
    Repository,
    st.sampled_from(["github.com", "gitlab.com", "gitlab.example.com", "git.example.com"]),
    st.builds("{}/{}".format, PARTS, PARTS),
)
TOKENS = st.dictionaries(
    st.sampled_from(sorted(VARIABLES)),
    st.builds(TokenSource, st.just("SOME_TOKEN"), st.sampled_from([ENVIRONMENT, DOTENV, GH])),
)


@given(
    st.builds(
        DiscoveredSetup,
        tokens=TOKENS,
        repositories=st.lists(REPOSITORIES, max_size=3, unique=True).map(tuple),
        python=st.lists(SITES, max_size=3).map(tuple),
        npm=st.lists(SITES, max_size=3).map(tuple),
        cargo=st.lists(SITES, max_size=2).map(tuple),
        go=st.lists(SITES, max_size=2).map(tuple),
        apt=st.lists(SITES, max_size=3).map(tuple),
        files=st.dictionaries(
            st.sampled_from(["pip", "npm", "cargo", "go"]), st.lists(SITES, max_size=2).map(tuple)
        ),
        python_unclear=st.sampled_from([(), ("PIP_INDEX_URL",)]),
        npm_unclear=st.sampled_from([(), ("~/.npmrc",)]),
        other_names=st.sampled_from([(), ("STRIPE_SECRET_KEY",)]),
    )
)
def test_whatever_is_found_the_text_is_sound(found: DiscoveredSetup) -> None:
    sound(found)


def test_what_the_tools_say_is_written_as_entries_that_work() -> None:
    found = DiscoveredSetup(
        tokens={},
        python=(configured("index.example.com"),),
        npm=(configured("npm.example.com"),),
        cargo=(configured("crates.example.com"),),
        go=(configured("modules.example.com"),),
        apt=(configured("archive.example.com", 80, "http"), configured("secure.example.com")),
        files={
            "pip": (configured("files.example.com"),),
            "npm": (configured("npm.example.com"), configured("tarballs.example.com")),
            "cargo": (configured("static.example.com"),),
            "go": (configured("sums.example.com"),),
        },
    )
    rules = sound(found)
    for host in ("index", "files", "npm", "tarballs", "crates", "static", "modules", "sums", "secure"):
        assert decision_text(rules, f"GET https://{host}.example.com/x").startswith("allow"), host
        assert decision_text(rules, f"PUT https://{host}.example.com/x") == "deny rule.none"
        assert decision_text(rules, f"GET http://{host}.example.com/x") == "deny host.cleartext"
    assert decision_text(rules, "GET http://archive.example.com/x") == "allow apt-archive-host"
    assert decision_text(rules, "PUT http://archive.example.com/x") == "deny rule.none"
    written = text(found, with_schema=False)
    assert "Add other hosts" not in written
    assert [line for line in summary(found) if line.startswith("go:")] == [
        "go: modules.example.com, from pip.conf",
        "go: sums.example.com, from pip.conf",
    ]


def test_one_mirror_may_serve_every_tool() -> None:
    mirror = (configured("mirror.example.com"),)
    rules = sound(
        DiscoveredSetup(
            tokens={},
            python=mirror,
            npm=mirror,
            cargo=mirror,
            go=mirror,
            apt=(configured("mirror.example.com", 80, "http"),),
            files={"pip": mirror, "cargo": mirror, "go": mirror},
        )
    )
    assert decision_text(rules, "GET https://mirror.example.com/x").startswith("allow")
    assert decision_text(rules, "PUT https://mirror.example.com/x") == "deny rule.none"
