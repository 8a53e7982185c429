"""GitHub's own command line, git, and the libraries read and write what the rules name, without a token."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from egress.errors import CODES
from tests.proxy.clients.cache import Fetched
from tests.tools.conftest import LabMaker, everywhere
from tests.tools.fetched import GH, HERE, NODE, PROGRAMS, PYTHON, PYTHON_PROGRAM, seen_at
from tests.tools.standins import github_api
from tests.tools.standins.git_server import GitServer
from tests.tools.standins.github_api import GithubApi
from tests.tools.tool import Tool, pinned, printed
from tests.tools.tool_lab import ToolLab
from tests.unit.inspect.graphql.scope_vectors import FOREIGN_ISSUE

FAMILY: Final = "GitHub and git"
TOKEN: Final = "github_pat_real0123456789abcdef0123456789"
REPOSITORY: Final = "{read: [acme/widgets], write: [acme/widgets]}"
SCOPED: Final = (
    "{read: [acme/widgets], write: [acme/widgets], graphql: scoped,"
    f" ids: ['acme/widgets={github_api.REPOSITORY_ID}']}}"
)
IDENTITY: Final = "git config user.email agent@example.test && git config user.name agent"
"""Whoever commits has to say who it is: no business of the proxy."""
FIRST: Final = "A first issue"

GH_CLI = Tool(
    "gh",
    FAMILY,
    pinned(PROGRAMS / "gh/go.mod", "github.com/cli/cli/v2"),
    rules="`use: [{github: {graphql: scoped, ids: [...], ...}}]`",
)
GIT = Tool("git", FAMILY, printed("git", "--version"), rules="`use: [{github: {...}}]`")
INSTEAD: Final = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "url.https://github.com/.insteadOf",
    "GIT_CONFIG_VALUE_0": "git@github.com:",
}
GIT_SSH = Tool(
    "git, for URLs of ssh",
    FAMILY,
    printed("git", "--version"),
    rules="`use: [{github: {...}}]`",
    sets=INSTEAD,
)
PYGITHUB = Tool(
    "PyGithub", FAMILY, pinned(HERE / "requirements.lock", "pygithub"), rules="`use: [{github: {...}}]`"
)
OCTOKIT = Tool(
    "octokit", FAMILY, pinned(PROGRAMS / "node/package.json", "octokit"), rules="`use: [{github: {...}}]`"
)


class Forge:
    """GitHub with one repository, and a lab before it."""

    def __init__(
        self, make_lab: LabMaker, folder: Path, rules: str, *fetched: Fetched, path: tuple[str, ...] = ()
    ) -> None:
        (folder / "served").mkdir()
        self.git = GitServer(folder / "served", TOKEN)
        self.bare = self.git.create(f"{github_api.OWNER}/{github_api.NAME}")
        self.api = GithubApi(TOKEN)
        vendors = {github_api.HOST: self.api, github_api.SITE: self.git}
        self.lab: ToolLab = make_lab(
            vendors, f"use: [github: {rules}]", {"GITHUB_TOKEN": TOKEN}, *fetched, path=path
        )

    def sh(self, script: str, env: Mapping[str, str] | None = None) -> str:
        """Run a script in a sandbox, and return what it prints."""
        ran = self.lab.run("sh", "-ec", script, env=env)
        assert ran.status == 0, ran.said + self.lab.told()
        return ran.out

    def branch(self, name: str) -> str:
        """The subject of a branch's last commit, at GitHub."""
        return self.git.git("log", "-1", "--format=%s", name, folder=self.bare)


@GH_CLI.proves("auth status", "issue list", "issue create")
@everywhere()
@pytest.mark.timeout(900)
def test_gh_works_with_issues(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, SCOPED, GH, path=("bin",))
    script = (
        "gh auth status; gh issue list -R acme/widgets; gh issue create -R acme/widgets -t Second -b Text"
    )
    said = forge.sh(script)
    assert f"account {github_api.LOGIN} (GITHUB_TOKEN)" in said
    assert FIRST in said
    assert said.endswith("/acme/widgets/issues/2\n")
    assert [issue["title"] for issue in forge.api.issues] == [FIRST, "Second"]


@GH_CLI.proves("issue view", "issue comment", "issue close", "pr list", "pr view")
@everywhere()
@pytest.mark.timeout(900)
def test_gh_reads_and_writes_by_number(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, SCOPED, GH, path=("bin",))
    commands = ("issue view 1", "issue comment 1 -b Seen", "pr list", "pr view 9", "pr comment 9 -b Good")
    said = forge.sh(";".join(f"gh {command} -R acme/widgets" for command in (*commands, "issue close 1")))
    assert FIRST in said
    assert said.count("A change") == 2
    named = [(each["subjectId"], each["body"]) for each in forge.api.comments]
    assert named == [(github_api.ISSUE_ID, "Seen"), (github_api.PULL_ID, "Good")]
    assert forge.api.issues[0]["state"] == "CLOSED"
    # Answers are asked to hold ids that tell their repository.
    calls = forge.lab.calls(github_api.HOST, "/graphql")
    assert {call.header("x-github-next-global-id") for call in calls} == {"1"}


EVERY_FIELD: Final = """
for command in "issue view 1 -R acme/widgets" "pr view 9 -R acme/widgets" "repo view acme/widgets"; do
    fields=$(gh $command --json 2>&1 | sed 1d | tr -d ' ' | grep -vx projects | paste -sd,)
    echo "$command: $fields"
    gh $command --json "$fields" 2>&1 || true
done
"""
"""A command that is asked for JSON without fields lists them. Classic projects are gone, and left out."""


@GH_CLI.proves("every field of an issue, a pull request and a repository")
@everywhere()
@pytest.mark.timeout(900)
def test_gh_may_ask_for_every_field_that_it_knows(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, SCOPED, GH, path=("bin",))
    said = forge.sh(EVERY_FIELD)
    assert "Egress" not in said
    asked = " ".join(call.json()["query"] for call in forge.lab.calls(github_api.HOST, "/graphql"))
    for field in ("closedByPullRequestsReferences", "statusCheckRollup", "assignableUsers", "latestRelease"):
        assert field in asked, said


OUTSIDE: Final = {
    "issue list -R acme/other": "graphql.scope",
    "issue view 1 -R evil/widgets": "graphql.scope",
    "issue create -R acme/other -t T -b B": "graphql.scope",
    "repo clone evil/widgets": "graphql.scope",
    "pr list -R evil/widgets": "graphql.scope",
    "pr status -R acme/widgets": "graphql.field",
    "issue list -R acme/widgets --search x": "graphql.field",
    "pr merge 9 -R acme/widgets --merge": "graphql.field",
    f"api graphql -f query='{{node(id:\"{FOREIGN_ISSUE}\"){{id}}}}'": "graphql.scope",
    "api graphql -f query='{viewer{repositories(first:9){nodes{name}}}}'": "graphql.foreign",
}
"""Commands that leave the repository or the rules, and the code of their denial."""


@GH_CLI.proves("the repository of a denial")
@everywhere()
@pytest.mark.timeout(900)
def test_gh_is_denied_outside_its_repository(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, SCOPED, GH, path=("bin",))
    for command, code in OUTSIDE.items():
        ran = forge.lab.run("sh", "-ec", f"gh {command}")
        assert ran.status != 0, command
        assert CODES[code].message.lower() in ran.err.lower(), f"{command}: {ran.said}"
    documents = [call.json()["query"] for call in forge.lab.calls(github_api.HOST, "/graphql")]
    assert not any(word in text for text in documents for word in ("other", "evil", "search(", "mergePull"))
    assert forge.sh("gh issue list -R acme/widgets") != ""


@GH_CLI.proves("repo clone", "pr create")
@everywhere()
@pytest.mark.timeout(900)
def test_gh_clones_and_opens_a_pull_request(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, SCOPED, GH, path=("bin",))
    said = forge.sh(
        f"gh repo clone acme/widgets -- -q; cd widgets; {IDENTITY}; git checkout -q -b agent/new;"
        " echo x >new; git add new; git commit -qm 'add new'; git push -q -u origin agent/new;"
        " gh pr create --title T --body B"
    )
    assert said == "https://github.com/acme/widgets/pull/9\n"
    (pull,) = forge.api.pulls
    assert (pull["title"], pull["headRefName"], pull["baseRefName"]) == ("T", "agent/new", "main")
    assert forge.branch("agent/new") == "add new"


@GH_CLI.proves("the reason for a denial")
@everywhere()
@pytest.mark.timeout(900)
def test_gh_shows_why_it_is_denied_without_graphql(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, REPOSITORY, GH, path=("bin",))
    ran = forge.lab.run("gh", "issue", "list", "-R", "acme/widgets")
    assert ran.status != 0
    assert "graphql" in ran.err.lower(), ran.said
    assert not forge.lab.calls(github_api.HOST, "/graphql")


@GIT.proves("clone", "fetch", "push")
@everywhere(smoke="docker")
@pytest.mark.timeout(900)
def test_git_clones_and_pushes_over_https(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, REPOSITORY)
    forge.sh(
        f"git clone -q https://github.com/acme/widgets.git; cd widgets; {IDENTITY}; echo x >new; git add new;"
        " git commit -qm 'add new'; git push -q origin main:agent/new; git fetch -q"
    )
    assert forge.branch("agent/new") == "add new"


@GIT.proves("the reason for a denial")
@everywhere()
@pytest.mark.timeout(400)
def test_git_shows_why_a_push_elsewhere_is_denied(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, "{read: [acme/widgets]}")
    script = (
        f"git clone -q https://github.com/acme/widgets; cd widgets; {IDENTITY}; git push -q origin main:other"
    )
    ran = forge.lab.run("sh", "-ec", script)
    assert ran.status != 0
    assert "remote error: Egress: No rule allows this with this repository." in ran.err, ran.said


@GIT.proves("the reason for a denial")
@everywhere()
@pytest.mark.timeout(400)
def test_git_shows_why_a_push_to_main_is_denied(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, REPOSITORY)
    before = forge.branch("main")
    ran = forge.lab.run(
        *("sh", "-ec"),
        f"git clone -q https://github.com/acme/widgets; cd widgets; {IDENTITY}; echo x >new; git add new;"
        " git commit -qm 'add new'; git push -q origin main",
    )
    assert ran.status != 0
    assert "! [remote rejected] main -> main (no rule allows a push to this ref)" in ran.err, ran.said
    assert forge.branch("main") == before


@GIT_SSH.proves("clone", "push")
@everywhere()
@pytest.mark.timeout(400)
def test_git_takes_urls_of_ssh_to_https(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, REPOSITORY)
    forge.sh(
        f"git clone -q git@github.com:acme/widgets.git; cd widgets; {IDENTITY}; echo x >new; git add new;"
        " git commit -qm 'over ssh'; git push -q origin main:agent/new",
        env=INSTEAD,
    )
    assert forge.branch("agent/new") == "over ssh"


@PYGITHUB.proves("who am I", "issues", "a pull request")
@everywhere()
@pytest.mark.timeout(400)
def test_pygithub_works_with_issues(make_lab: LabMaker, tmp_path: Path) -> None:
    library(make_lab, tmp_path, PYTHON, "pygithub_issues.py", f"['{FIRST}']")


@OCTOKIT.proves("who am I", "issues", "a pull request")
@everywhere()
@pytest.mark.timeout(400)
def test_octokit_works_with_issues(make_lab: LabMaker, tmp_path: Path) -> None:
    library(make_lab, tmp_path, NODE, "octokit_issues.mjs", FIRST)


@OCTOKIT.proves("GraphQL within a repository")
@everywhere(smoke="namespace")
@pytest.mark.timeout(400)
def test_octokit_asks_graphql_within_its_repository(make_lab: LabMaker, tmp_path: Path) -> None:
    forge = Forge(make_lab, tmp_path, SCOPED, NODE)
    program = "octokit_graphql.mjs"
    (forge.lab.workspace / program).write_bytes((PROGRAMS / "node" / program).read_bytes())
    (forge.lab.workspace / "node_modules").symlink_to(f"{seen_at(NODE)}/node_modules")
    ran = forge.lab.run("node", program, github_api.ISSUE_ID, FOREIGN_ISSUE)
    assert ran.status == 0, ran.said + forge.lab.told()
    first, url, *denied = ran.out.splitlines()
    assert (first, url) == (FIRST, "https://github.com/acme/widgets/issues/1#issuecomment-1")
    assert denied == ["403 graphql.scope"] * 2
    assert [each["subjectId"] for each in forge.api.comments] == [github_api.ISSUE_ID]


def library(make_lab: LabMaker, folder: Path, fetched: Fetched, program: str, titles: str) -> None:
    """A program says who it is, lists issues, adds one, and opens a pull request."""
    forge = Forge(make_lab, folder, REPOSITORY, fetched)
    place = PROGRAMS / ("python" if fetched is PYTHON else "node") / program
    (forge.lab.workspace / program).write_bytes(place.read_bytes())
    if fetched is NODE:
        (forge.lab.workspace / "node_modules").symlink_to(f"{seen_at(NODE)}/node_modules")
    program_of = f'{PYTHON_PROGRAM} {program} "$GITHUB_TOKEN"' if fetched is PYTHON else f"node {program}"
    ran = forge.lab.run("sh", "-ec", program_of)
    assert ran.status == 0, ran.said + forge.lab.told()
    assert ran.out.splitlines() == [github_api.LOGIN, titles, "2", "https://github.com/acme/widgets/pull/9"]
    assert [pull["title"] for pull in forge.api.pulls] == ["A change"]
