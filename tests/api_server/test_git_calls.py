"""A clone over the API, and addresses that no clone is made from."""

from __future__ import annotations

import pytest

from tests.api_server.file_lab import FileLab


@pytest.mark.parametrize(
    "url", ["https://user:word@git.example.com/a", "file:///etc", "git.example.com/a", "--upload-pack=id"]
)
def test_an_address_that_is_not_plain_https_is_refused(files: FileLab, url: str) -> None:
    answer = files.ask("POST", "git", {"url": url, "path": "a"})
    assert (answer.status, answer.body["type"]) == (422, "spec.invalid")
    assert "word" not in str(answer.body)


def test_a_clone_cannot_lead_out_of_the_workspace(files: FileLab) -> None:
    answer = files.ask("POST", "git", {"url": "https://git.example.com/a", "path": "../a"})
    assert (answer.status, answer.body["type"]) == (403, "path.outside")


@pytest.mark.system("git", "git")
def test_the_failure_of_a_clone_has_a_type(files: FileLab) -> None:
    answer = files.ask("POST", "git", {"url": "https://127.0.0.1:1/a.git", "depth": 1})
    assert (answer.status, answer.body["type"]) == (502, "git.unreachable")
