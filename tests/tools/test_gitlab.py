"""GitLab's command line reads and writes what the rules name, without a token."""

from __future__ import annotations

from typing import Final

import pytest

from tests.tools.conftest import LabMaker, everywhere
from tests.tools.fetched import GLAB, PROGRAMS
from tests.tools.standins import gitlab_api
from tests.tools.standins.gitlab_api import GitlabApi
from tests.tools.tool import Absent, Tool, pinned

TOKEN: Final = "glpat-real0123456789abcdef"
RULES: Final = "use: [gitlab: {api_read: [acme%2Fwidgets], api_write: [acme%2Fwidgets]}]"
CREATES: Final = "issue create, mr create"

NEWER_GLAB = Absent(
    "glab, newer than 1.22", "GitHub and git", "its module could not be fetched where the table was made"
)
GLAB_CLI = Tool(
    "glab",
    "GitHub and git",
    pinned(PROGRAMS / "glab/go.mod", "github.com/profclems/glab"),
    rules="`use: [{gitlab: {...}}]`",
    cannot={
        CREATES: "`issue create` and `mr create` read the project first, whose answer can hold a token for"
        " runners, so the preset denies it: `glab api` creates them"
    },
)


@GLAB_CLI.proves("issue list", "mr list", "an issue by `glab api`")
@everywhere()
@pytest.mark.timeout(900)
def test_glab_works_with_issues(make_lab: LabMaker) -> None:
    api = GitlabApi(TOKEN)
    lab = make_lab({gitlab_api.HOST: api}, RULES, {"GITLAB_TOKEN": TOKEN}, GLAB, path=("bin",))
    script = (
        "glab issue list -R acme/widgets; glab mr list -R acme/widgets;"
        " glab api projects/acme%2Fwidgets/issues -f title=Second"
    )
    ran = lab.run("sh", "-ec", script)
    assert ran.status == 0, ran.said + lab.told()
    assert "A first issue" in ran.out
    assert "!7\tA change" in ran.out
    assert [issue["title"] for issue in api.issues] == ["A first issue", "Second"]


@GLAB_CLI.proves(CREATES, "the reason for a denial")
@everywhere()
@pytest.mark.timeout(900)
def test_glab_shows_why_the_project_itself_is_denied(make_lab: LabMaker) -> None:
    api = GitlabApi(TOKEN)
    lab = make_lab({gitlab_api.HOST: api}, RULES, {"GITLAB_TOKEN": TOKEN}, GLAB, path=("bin",))
    ran = lab.run("glab", "issue", "create", "-R", "acme/widgets", "-t", "Second", "-d", "Text", "-y")
    assert ran.status != 0
    assert "{message: No rule allows this request.}, {operator: egress log suggest " in ran.err, ran.said
    assert len(api.issues) == 1
    assert not lab.server.calls, lab.told()
