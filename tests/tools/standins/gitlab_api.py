"""GitLab with one project: who somebody is, its issues, its merge requests."""

from __future__ import annotations

from typing import Any, Final

from tests.tools.vendor_server import VendorCall

HOST: Final = "gitlab.com"
LOGIN: Final = "agent"
PROJECT: Final = "/api/v4/projects/acme%2Fwidgets"
_MADE: Final = "2026-01-01T00:00:00.000Z"
_OTHER_SLOTS: Final = ("authorization", "job-token", "deploy-token")


class GitlabApi:
    """Lets in whoever brings the token in its own header, and nothing else."""

    def __init__(self, token: str) -> None:
        self._token = token
        self.issues: list[dict[str, Any]] = [_item(1, "A first issue", "issues")]

    def __call__(self, call: VendorCall) -> None:
        if call.header("private-token") != self._token or any(map(call.header, _OTHER_SLOTS)):
            call.reply_json({"message": "401 Unauthorized"}, 401)
        elif call.path == "/api/v4/user":
            call.reply_json({"id": 1, "username": LOGIN, "name": LOGIN})
        elif (call.method, call.path) == ("GET", f"{PROJECT}/issues"):
            call.reply_json(self.issues)
        elif (call.method, call.path) == ("POST", f"{PROJECT}/issues"):
            self.issues.append(_item(len(self.issues) + 1, call.json()["title"], "issues"))
            call.reply_json(self.issues[-1], 201)
        elif (call.method, call.path) == ("GET", f"{PROJECT}/merge_requests"):
            call.reply_json([_item(7, "A change", "merge_requests")])
        else:
            call.reply_json({"message": "404 Not Found"}, 404)


def _item(number: int, title: str, kind: str) -> dict[str, Any]:
    return {
        "id": number,
        "iid": number,
        "project_id": 1,
        "title": title,
        "state": "opened",
        "labels": [],
        "created_at": _MADE,
        "updated_at": _MADE,
        "author": {"id": 1, "username": LOGIN},
        "source_branch": "feature",
        "target_branch": "main",
        "references": {"full": f"acme/widgets#{number}"},
        "web_url": f"https://{HOST}/acme/widgets/-/{kind}/{number}",
    }
