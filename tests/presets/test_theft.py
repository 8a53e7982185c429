"""What a thief inside a sandbox would want from the services that presets open.

Each case has its positive control beside it: the honest twin of the request goes through.
"""

from __future__ import annotations

import pytest

from egress.rules.compile.service_credential_slots import credential_slots
from egress.rules.decide.policy import Policy
from egress.types import Cookies, Decision, Redirects
from tests.presets.preset_samples import NAMES, ask, ask_git, decoded, example_arguments, policy, sent

GITHUB = {"write": ["acme/widgets"]}
GITLAB = {"write": ["acme/widgets"], "api_read": ["*"], "api_write": ["acme%2Fwidgets"]}


def github(request: str) -> Decision:
    return ask(policy("github", GITHUB), request)


def gitlab(request: str) -> Decision:
    return ask(policy("gitlab", GITLAB), request)


def test_an_issue_or_a_gist_cannot_be_opened_elsewhere() -> None:
    """S-57: creation with an injected token happens in the named repositories alone."""
    assert github("POST https://api.github.com/repos/acme/widgets/issues").allowed
    assert not github("POST https://api.github.com/repos/mallory/drop/issues").allowed
    assert not github("POST https://api.github.com/repos/mallory/drop/issues/1/comments").allowed
    assert not github("POST https://api.github.com/gists").allowed
    assert not github("PATCH https://api.github.com/gists/1").allowed
    assert gitlab("POST https://gitlab.com/api/v4/projects/acme%2Fwidgets/issues").allowed
    assert not gitlab("POST https://gitlab.com/api/v4/projects/mallory%2Fdrop/issues").allowed
    assert not gitlab("POST https://gitlab.com/api/v4/snippets").allowed


@pytest.mark.parametrize("name", ["github", "gitlab"])
@pytest.mark.parametrize("suffix", ["", ".git"])
def test_a_push_goes_to_the_named_repository_alone(name: str, suffix: str) -> None:
    """S-58: every repository may be read, and one be written."""
    rules, base = policy(name, {"write": ["acme/widgets"]}), f"https://{name}.com"

    def may_push(repository: str) -> bool:
        refs = f"{base}/{repository}{suffix}/info/refs?service=git-receive-pack"
        pushed = ask_git(rules, base, f"push {repository}{suffix} create refs/heads/agent/x")
        assert ask(rules, f"GET {refs}").allowed is pushed.allowed
        return pushed.allowed

    assert may_push("acme/widgets")
    for foreign in ("mallory/drop", "acme/widgets2", "mallory/widgets", "acme/widgets.evil"):
        assert not may_push(foreign)
    assert ask_git(rules, base, f"fetch mallory/drop{suffix}").allowed


@pytest.mark.parametrize(
    "query",
    [
        "service=git-upload-pack&service=git-receive-pack",
        "service=git-receive-pack&service=git-upload-pack",
        "service=git-upload-pack%00git-receive-pack",
        "SERVICE=git-upload-pack",
        "service=git-upload-pack;service=git-receive-pack",
        "",
    ],
)
def test_the_service_of_a_clone_is_named_once_and_exactly(query: str) -> None:
    """S-58: servers differ in which of two values they take."""
    assert github("GET https://github.com/any/repo/info/refs?service=git-upload-pack").allowed
    assert not github(f"GET https://github.com/any/repo/info/refs?{query}").allowed


@pytest.mark.parametrize(
    "request_line",
    [
        "POST https://api.github.com/graphql",
        "POST https://api.github.com/graphql/",
        "GET https://api.github.com/graphql?query=mutation",
        "POST https://api.github.com/GraphQL",
    ],
)
def test_graphql_is_closed_as_a_whole(request_line: str) -> None:
    """S-59: aliases, batches and persisted queries cannot be told apart by the head."""
    decision = github(request_line)
    assert decision.rule is not None
    assert decision.rule.id == "github-no-graphql"


MINTING = [
    ("github", "POST https://api.github.com/app/installations/1/access_tokens"),
    ("github", "POST https://api.github.com/repos/acme/widgets/actions/runners/registration-token"),
    ("github", "POST https://github.com/login/oauth/access_token"),
    ("gitlab", "POST https://gitlab.com/api/v4/projects/acme%2Fwidgets/access_tokens"),
    ("gitlab", "POST https://gitlab.com/oauth/token"),
    ("anthropic", "POST https://api.anthropic.com/api/oauth/claude_cli/create_api_key"),
    ("openai", "POST https://api.openai.com/v1/realtime/client_secrets"),
    ("openai", "POST https://api.openai.com/v1/organization/admin_api_keys"),
    ("gemini", "POST https://generativelanguage.googleapis.com/v1alpha/auth_tokens"),
    ("copilot", "GET https://api.github.com/copilot_internal/v2/token"),
    ("huggingface", "GET https://huggingface.co/api/models/acme/small/xet-read-token/main"),
    ("huggingface", "GET https://huggingface.co/api/datasets/acme/set/xet-write-token/main"),
    ("huggingface", "POST https://huggingface.co/oauth/token"),
]
BATCHES = [
    ("github", "POST https://github.com/acme/widgets.git/info/lfs/objects/batch"),
    ("gitlab", "POST https://gitlab.com/acme/widgets.git/info/lfs/objects/batch"),
    ("gitlab", "POST https://gitlab.com/acme/tools/forge.git/info/lfs/objects/batch"),
    ("huggingface", "POST https://huggingface.co/acme/small.git/info/lfs/objects/batch"),
    ("huggingface", "POST https://huggingface.co/datasets/acme/set.git/info/lfs/objects/batch"),
]
PERSISTENCE = [
    ("github", "POST https://api.github.com/user/keys"),
    ("github", "POST https://api.github.com/repos/acme/widgets/keys"),
    ("github", "POST https://api.github.com/repos/acme/widgets/hooks"),
    ("github", "PUT https://api.github.com/repos/acme/widgets/collaborators/mallory"),
    ("github", "POST https://api.github.com/repos/acme/widgets/forks"),
    ("gitlab", "POST https://gitlab.com/api/v4/user/keys"),
    ("gitlab", "POST https://gitlab.com/api/v4/projects/acme%2Fwidgets/deploy_keys"),
    ("gitlab", "POST https://gitlab.com/api/v4/projects/acme%2Fwidgets/hooks"),
    ("gitlab", "POST https://gitlab.com/api/v4/projects/acme%2Fwidgets/remote_mirrors"),
    ("gitlab", "POST https://gitlab.com/api/v4/projects/acme%2Fwidgets/members"),
    ("gemini", "POST https://generativelanguage.googleapis.com/upload/v1beta/files"),
    ("gemini", "POST https://generativelanguage.googleapis.com/v1beta/cachedContents"),
    ("copilot", "POST https://api.githubcopilot.com/agents/swe/v1/jobs/acme/widgets"),
    ("copilot", "POST https://api.githubcopilot.com/mcp/"),
    ("huggingface", "POST https://huggingface.co/api/repos/create"),
    ("huggingface", "POST https://huggingface.co/api/models/acme/small/commit/main"),
    ("huggingface", "POST https://huggingface.co/api/settings/webhooks"),
]
LOOT = [
    ("github", "GET https://api.github.com/repos/acme/widgets/secret-scanning/alerts"),
    ("github", "GET https://api.github.com/repos/acme/widgets/actions/variables"),
    ("gitlab", "GET https://gitlab.com/api/v4/projects/acme%2Fwidgets/variables"),
    ("gitlab", "GET https://gitlab.com/api/v4/projects/acme%2Fwidgets/pipelines/1/variables"),
    ("huggingface", "GET https://huggingface.co/api/spaces/acme/app/secrets"),
    ("huggingface", "GET https://huggingface.co/settings/tokens"),
]


@pytest.mark.parametrize(("name", "request_line"), MINTING + BATCHES + PERSISTENCE + LOOT)
def test_a_wide_rule_in_the_file_does_not_open_what_a_preset_denies(name: str, request_line: str) -> None:
    """S-60, S-61, S-62: the deny rules hold beside a rule for everything that somebody adds."""
    method, _, url = request_line.partition(" ")
    host, _, _ = url.removeprefix("https://").partition("/")
    rules = opened_wide(name, host)
    denied = ask(rules, request_line)
    assert not denied.allowed
    assert denied.rule is not None
    assert denied.rule.id.startswith(f"{name}-no-")
    assert ask(rules, f"{method} https://{host}/something/else").allowed


def opened_wide(name: str, host: str) -> Policy:
    """The preset, and a rule of the file that allows the whole host."""
    return policy(name, {}, hosts={host: {"allow": [{"id": "everything", "encoded_slash": "data"}]}})


@pytest.mark.parametrize("ending", [".json", ".xml", ".", ".json/"])
@pytest.mark.parametrize(("name", "request_line"), MINTING + BATCHES + PERSISTENCE + LOOT)
def test_a_format_behind_a_denied_path_does_not_open_it(name: str, request_line: str, ending: str) -> None:
    """GitLab and others answer `/user/keys.json` as they answer `/user/keys`."""
    host = request_line.partition("https://")[2].partition("/")[0]
    denied = ask(opened_wide(name, host), request_line.rstrip("/") + ending)
    assert denied.rule is not None
    assert denied.rule.id.startswith(f"{name}-no-")


def test_a_number_in_place_of_a_name_opens_nothing() -> None:
    """GitHub takes the number of a repository or an organisation, under another first segment."""
    rules = opened_wide("github", "api.github.com")
    entry = next(entry for entry in rules.entries.values() if entry.key == "api.github.com")
    twins = {"/repos/*/*": "/repositories/7", "/orgs/*": "/organizations/7"}
    found = 0
    for rule in entry.deny:
        for glob in rule.predicates.paths or ():
            for beginning, twin in twins.items():
                if glob.text.startswith(beginning):
                    path = (twin + glob.text.removeprefix(beginning)).replace("/**", "").replace("*", "x")
                    method = min(rule.predicates.methods or {"GET"})
                    denied = ask(rules, f"{method} https://api.github.com{path}")
                    assert denied.rule is not None, path
                    assert denied.rule.id.startswith("github-no-"), path
                    found += 1
    assert found > 30
    assert ask(rules, "GET https://api.github.com/repositories/7/issues").allowed
    assert ask(rules, "GET https://api.github.com/organizations/7/public").allowed


@pytest.mark.parametrize(
    ("name", "request_line"),
    [
        ("anthropic", "POST https://api.anthropic.com/v1/messages"),
        ("openai", "POST https://api.openai.com/v1/responses"),
        ("gemini", "POST https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"),
        ("copilot", "POST https://api.githubcopilot.com/chat/completions"),
    ],
)
def test_a_prompt_is_bounded_in_size_and_number(name: str, request_line: str) -> None:
    """S-63: what a sandbox can carry out through prompts has an upper end, and no store to put it in."""
    decision = ask(policy(name, {}), request_line)
    assert decision.allowed
    (limit,) = decision.effects.limits
    assert limit.request_body == 32 * 1024**2
    assert limit.requests is not None
    files = request_line.rpartition("/")[0] + "/files"
    assert not ask(policy(name, {}), files).allowed


GEMINI = "POST https://generativelanguage.googleapis.com/v1beta/models/some-model"
OWN_SLOTS = [
    ("anthropic", "POST https://api.anthropic.com/v1/messages", "header:authorization"),
    ("anthropic", "POST https://api.anthropic.com/v1/messages", "header:x-api-key"),
    ("openai", "POST https://api.openai.com/v1/responses", "header:authorization"),
    ("openai", "POST https://api.openai.com/v1/responses", "header:api-key"),
    ("openai", "POST https://api.openai.com/v1/responses", "header:x-api-key"),
    ("github", "GET https://api.github.com/user", "header:authorization"),
    ("gitlab", "GET https://gitlab.com/api/v4/user", "header:authorization"),
    ("gitlab", "GET https://gitlab.com/api/v4/user", "header:private-token"),
    ("gitlab", "GET https://gitlab.com/api/v4/user", "header:job-token"),
    ("gitlab", "GET https://gitlab.com/api/v4/user", "header:deploy-token"),
    ("gitlab", "GET https://gitlab.com/api/v4/user", "query:private_token"),
    ("gitlab", "GET https://gitlab.com/api/v4/user", "query:access_token"),
    ("gitlab", "GET https://gitlab.com/api/v4/user", "query:job_token"),
    ("gitlab", "GET https://gitlab.com/a/b/info/refs?service=git-upload-pack", "header:private-token"),
    ("gemini", f"{GEMINI}:generateContent", "header:x-goog-api-key"),
    ("gemini", f"{GEMINI}:generateContent", "header:authorization"),
    ("gemini", f"{GEMINI}:generateContent", "query:key"),
    ("gemini", f"{GEMINI}:streamGenerateContent?alt=sse", "query:access_token"),
    ("gemini", f"{GEMINI}:countTokens", "header:x-goog-user-project"),
    ("copilot", "GET https://api.github.com/copilot_internal/user", "header:authorization"),
    ("copilot", "POST https://api.business.githubcopilot.com/responses", "header:authorization"),
    ("huggingface", "GET https://huggingface.co/api/whoami-v2", "header:authorization"),
]


@pytest.mark.parametrize(("name", "request_line", "slot"), OWN_SLOTS)
def test_a_sandbox_cannot_work_in_a_strangers_account(name: str, request_line: str, slot: str) -> None:
    """A key that the thief brought along is taken off, so that it never stands beside ours."""
    kind, _, field = slot.partition(":")
    mark = "&" if "?" in request_line else "?"
    line = f"{request_line}{mark}{field}=of-a-stranger" if kind == "query" else request_line
    fields = {field: "of-a-stranger"} if kind == "header" else {}
    head = sent(policy(name, {}), line, fields | {"x-other": "stays"})
    assert "of-a-stranger" not in repr((head.target, head.headers))
    assert "the-real-one" in "".join(value for _, value in decoded(head.headers))
    assert dict(head.headers)["x-other"] == "stays"


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_closes_every_known_slot_of_its_services(name: str) -> None:
    """`check` warns of an open slot, so the table that it reads must know what the presets know."""
    for entry in policy(name, example_arguments(name)).entries.values():
        assert entry.pattern is not None
        closed = {str(slot) for item in entry.inject for slot in (*item.injection.slots, *item.strip)}
        assert {str(slot) for slot in credential_slots(entry.pattern)} <= closed


def test_a_signed_redirect_passes_only_where_a_download_begins() -> None:
    """S-76: elsewhere a signed link in an answer is a credential that leaves."""
    downloads = (
        "GET https://api.github.com/repos/acme/widgets/tarball/main",
        "GET https://api.github.com/repos/acme/widgets/releases/assets/1",
    )
    assert {github(request).effects.redirects for request in downloads} == {Redirects.SIGNED}
    others = (
        "GET https://api.github.com/user",
        "GET https://api.github.com/repos/acme/widgets/releases/1/assets",
        "GET https://github.com/acme/widgets/info/refs?service=git-upload-pack",
        "GET https://github.com/acme/widgets/archive/main.tar.gz",
    )
    push = ask_git(policy("github", GITHUB), "https://github.com", "push acme/widgets refs/heads/agent/x")
    decisions = [push, *map(github, others)]
    assert all(decision.allowed for decision in decisions)
    assert {decision.effects.redirects for decision in decisions} == {Redirects.PASS}


def test_no_cookie_reaches_a_sandbox_from_these_services() -> None:
    """S-76: a session cookie would be a credential of its own."""
    for request in (
        "GET https://api.github.com/user",
        "GET https://github.com/acme/widgets/info/refs?service=git-upload-pack",
        "GET https://codeload.github.com/acme/widgets/tar.gz/main",
        "GET https://raw.githubusercontent.com/acme/widgets/main/README.md",
    ):
        decision = github(request)
        assert decision.allowed
        assert decision.effects.cookies is Cookies.DROP


def test_the_credential_goes_to_no_download_and_no_download_host() -> None:
    assert github("GET https://github.com/acme/widgets/info/refs?service=git-upload-pack").effects.needs
    assert not github("GET https://github.com/acme/widgets/archive/main.tar.gz").effects.needs
    rules = policy("github", GITHUB)
    hosts = [entry.key for entry in rules.entries.values() if not entry.inject]
    assert "codeload.github.com" in hosts
    assert [str(binding) for binding in rules.secrets["github"].bindings] == ["api.github.com", "github.com"]
