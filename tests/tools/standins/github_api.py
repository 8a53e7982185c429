"""The API of GitHub for one repository: REST and GraphQL, as far as `gh` and the libraries ask.

GraphQL is told apart by the names of operations, so a client that asks for more than this is answered with an
error that names the operation.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tests.tools.vendor_server import VendorCall

HOST: Final = "api.github.com"
SITE: Final = "github.com"
OWNER: Final = "acme"
NAME: Final = "widgets"
LOGIN: Final = "octo-agent"
REPOSITORY_ID: Final = "R_kgDOABPHjQ"
ISSUE_ID: Final = "I_kwDOABPHjQE"
PULL_ID: Final = "PR_kwDOABPHjQk"
_URL: Final = f"https://{SITE}/{OWNER}/{NAME}"
_NO_PROJECTS: Final = {"projectItems": {"nodes": [], "pageInfo": {"hasNextPage": False, "endCursor": ""}}}
_WHEN: Final = "2026-01-02T03:04:05Z"


class GithubApi:
    """Lets in whoever brings the token, and keeps what is created."""

    def __init__(self, token: str) -> None:
        self._credentials = (f"Bearer {token}", f"token {token}")
        self.issues: list[dict[str, Any]] = [self._issue("A first issue", "")]
        self.pulls: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []

    def __call__(self, call: VendorCall) -> None:
        if call.header("authorization") not in self._credentials:
            call.reply_json({"message": "Bad credentials"}, 401)
        elif call.path == "/graphql":
            self._graphql(call)
        else:
            self._rest(call)

    # REST

    def _rest(self, call: VendorCall) -> None:
        place = f"/repos/{OWNER}/{NAME}"
        match call.method, call.path:
            case _, "/":
                call.reply_json({"current_user_url": f"https://{HOST}/user"}, more={"x-oauth-scopes": ""})
            case "GET", "/user":
                call.reply_json(
                    {
                        "login": LOGIN,
                        "id": 1,
                        "node_id": "U_kgDOADP9xw",
                        "type": "User",
                        "url": f"https://{HOST}/user",
                    }
                )
            case "GET", "/meta":
                call.reply_json({"verifiable_password_authentication": False})
            case "GET", path if path == place:
                call.reply_json(self._repository())
            case "GET", path if path == f"{place}/issues":
                call.reply_json([_rest_issue(issue, n) for n, issue in enumerate(self.issues, 1)])
            case "POST", path if path == f"{place}/issues":
                self.issues.append(self._issue(call.json()["title"], call.json().get("body", "")))
                call.reply_json(_rest_issue(self.issues[-1], len(self.issues)), 201)
            case "POST", path if path == f"{place}/pulls":
                self.pulls.append(call.json())
                call.reply_json({**_rest_issue(call.json(), 9), "html_url": f"{_URL}/pull/9"}, 201)
            case _:
                call.reply_json({"message": "Not Found"}, 404)

    def _repository(self) -> dict[str, Any]:
        owner = {"login": OWNER, "id": 2, "type": "Organization", "url": f"https://{HOST}/users/{OWNER}"}
        return {
            "id": 3,
            "node_id": REPOSITORY_ID,
            "name": NAME,
            "full_name": f"{OWNER}/{NAME}",
            "owner": owner,
            "private": True,
            "default_branch": "main",
            "url": f"https://{HOST}/repos/{OWNER}/{NAME}",
            "html_url": _URL,
            "clone_url": f"{_URL}.git",
        }

    # GraphQL

    def _graphql(self, call: VendorCall) -> None:
        asked = call.json()
        found = re.search(r"(?:query|mutation)\s+(\w+)", asked["query"])
        name = found[1] if found else ""
        answer = OPERATIONS.get(name)
        if answer is None:
            call.reply_json(
                {"errors": [{"message": f"the stand-in knows no operation {name}: {asked['query'][:300]}"}]}
            )
            return
        call.reply_json({"data": answer(self, asked.get("variables", {}))})

    def viewer(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"viewer": {"login": LOGIN}}

    def about(self, _: dict[str, Any]) -> dict[str, Any]:
        repository = {
            "id": REPOSITORY_ID,
            "name": NAME,
            "owner": {"login": OWNER},
            "hasIssuesEnabled": True,
            "description": "",
            "hasWikiEnabled": False,
            "viewerPermission": "WRITE",
            "defaultBranchRef": {"name": "main"},
            "parent": None,
            "mergeCommitAllowed": True,
            "rebaseMergeAllowed": True,
            "squashMergeAllowed": True,
        }
        return {"repository": repository}

    def list_issues(self, _: dict[str, Any]) -> dict[str, Any]:
        page = {"hasNextPage": False, "endCursor": None}
        issues = {"totalCount": len(self.issues), "nodes": self._numbered(), "pageInfo": page}
        return {"repository": {"hasIssuesEnabled": True, "issues": issues}}

    def create_issue(self, variables: dict[str, Any]) -> dict[str, Any]:
        given = variables["input"]
        self.issues.append(self._issue(given["title"], given["body"]))
        return {"createIssue": {"issue": {"id": ISSUE_ID, "url": f"{_URL}/issues/{len(self.issues)}"}}}

    def find_pull(self, _: dict[str, Any]) -> dict[str, Any]:
        branch = {"name": "main"}
        return {"repository": {"pullRequests": {"nodes": []}, "defaultBranchRef": branch}}

    def create_pull(self, variables: dict[str, Any]) -> dict[str, Any]:
        self.pulls.append(variables["input"])
        return {"createPullRequest": {"pullRequest": {"id": PULL_ID, "url": f"{_URL}/pull/9"}}}

    def network(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"viewer": {"login": LOGIN}, "repo_000": self.about({})["repository"]}

    def issue(self, _: dict[str, Any]) -> dict[str, Any]:
        found = {**self._numbered()[0], "__typename": "Issue", "id": ISSUE_ID, "author": {"login": LOGIN}}
        return {"repository": {"hasIssuesEnabled": True, "issue": found}}

    def no_project(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"repository": {"issue": _NO_PROJECTS}}

    def no_project_of_pull(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"repository": {"pullRequest": _NO_PROJECTS}}

    def pull(self, _: dict[str, Any]) -> dict[str, Any]:
        found = {"id": PULL_ID, "number": 9, "title": "A change", "state": "OPEN", "url": f"{_URL}/pull/9"}
        return {"repository": {"pullRequest": {**found, "author": {"login": LOGIN}}}}

    def list_pulls(self, _: dict[str, Any]) -> dict[str, Any]:
        found = {**self.pull({})["repository"]["pullRequest"], "headRefName": "agent/x", "createdAt": _WHEN}
        pulls = {"totalCount": 1, "nodes": [found], "pageInfo": {"hasNextPage": False, "endCursor": ""}}
        return {"repository": {"pullRequests": pulls}}

    def comment(self, variables: dict[str, Any]) -> dict[str, Any]:
        self.comments.append(variables["input"])
        return {"addComment": {"commentEdge": {"node": {"url": f"{_URL}/issues/1#issuecomment-1"}}}}

    def close(self, variables: dict[str, Any]) -> dict[str, Any]:
        self.issues[0]["state"] = "CLOSED"
        return {"closeIssue": {"issue": {"id": variables["input"]["issueId"]}}}

    def no_types(self, _: dict[str, Any]) -> dict[str, Any]:
        return {name: {"fields": []} for name in ("PullRequest", "StatusCheckRollupContextConnection")}

    def search_type(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"SearchType": {"enumValues": [{"name": "ISSUE_ADVANCED"}]}}

    def no_run_type(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"WorkflowRun": {"fields": []}}

    def _numbered(self) -> list[dict[str, Any]]:
        return [{**issue, "number": n, "url": f"{_URL}/issues/{n}"} for n, issue in enumerate(self.issues, 1)]

    @staticmethod
    def _issue(title: str, body: str) -> dict[str, Any]:
        labels: dict[str, Any] = {"nodes": [], "totalCount": 0}
        return {
            "title": title,
            "body": body,
            "state": "OPEN",
            "updatedAt": _WHEN,
            "labels": labels,
            "stateReason": "",
        }


def _rest_issue(issue: dict[str, Any], number: int) -> dict[str, Any]:
    user = {"login": LOGIN, "id": 1, "type": "User"}
    about = {
        "id": number,
        "node_id": f"I_{number}",
        "number": number,
        "user": user,
        "labels": [],
        "assignees": [],
    }
    times = {"created_at": _WHEN, "updated_at": _WHEN, "closed_at": None}
    url = f"https://{HOST}/repos/{OWNER}/{NAME}/issues/{number}"
    return {
        **about,
        **times,
        "title": issue["title"],
        "body": issue.get("body"),
        "state": "open",
        "comments": 0,
    } | {
        "url": url,
        "html_url": f"{_URL}/issues/{number}",
    }


OPERATIONS: Final = {
    "UserCurrent": GithubApi.viewer,
    "RepositoryInfo": GithubApi.about,
    "IssueList": GithubApi.list_issues,
    "IssueCreate": GithubApi.create_issue,
    "PullRequestForBranch": GithubApi.find_pull,
    "PullRequestCreate": GithubApi.create_pull,
    "RepositoryNetwork": GithubApi.network,
    "IssueByNumber": GithubApi.issue,
    "IssueProjectItems": GithubApi.no_project,
    "IssueClose": GithubApi.close,
    "CommentCreate": GithubApi.comment,
    "PullRequestByNumber": GithubApi.pull,
    "PullRequestProjectItems": GithubApi.no_project_of_pull,
    "PullRequestList": GithubApi.list_pulls,
    "SearchType_enumValues": GithubApi.search_type,
    "PullRequest_fields": GithubApi.no_types,
    "PullRequest_fields2": GithubApi.no_run_type,
}
"""The operations of GraphQL, by their names in the queries of `gh`."""
