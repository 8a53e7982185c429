"""A clone names no credential, and says why it failed in words of its own."""

from __future__ import annotations

import pytest

from egress.runtime.errors import SandboxError, SpecError, UnsupportedError
from egress.runtime.fake import FakeRuntime, ProgramCall
from egress.sandbox.errors import (
    GitDeniedError,
    GitError,
    GitNotFoundError,
    GitUnreachableError,
    LateCommandError,
    PathExistsError,
)
from egress.sandbox.git import Clone
from egress.sandbox.handle import Sandbox

URL = "https://git.example.com/team/project.git"
COMMIT = "a" * 40


class Shell:
    """What answers for the shell of a sandbox in memory."""

    def __init__(self, status: int, said: str = "") -> None:
        self.status = status
        self.said = said
        self.calls: list[tuple[str, ...]] = []
        self.env: dict[str, str] = {}

    def __call__(self, call: ProgramCall) -> int:
        if call.argv[4] == "resolve":
            call.write(f"/workspace/{call.argv[6]}/".encode())
            return 0
        self.calls.append(call.argv[4:])
        self.env = dict(call.env)
        if self.status == 0:
            call.write(f"{COMMIT}\n".encode())
        if self.status == 124:
            call.sleep(10_000)
        call.complain(self.said.encode())
        return self.status


def sandbox(shell: Shell) -> Sandbox:
    return Sandbox.create(image="any", runtime=FakeRuntime(programs={"/bin/sh": shell}))


def test_it_is_cloned_into_a_folder_of_its_name() -> None:
    shell = Shell(0)
    assert sandbox(shell).git.clone(URL) == Clone("project", COMMIT)
    assert shell.calls == [("--", URL, "/workspace/project")]
    assert shell.env["GIT_TERMINAL_PROMPT"] == "0"


def test_branch_depth_and_path_are_words() -> None:
    shell = Shell(0)
    sandbox(shell).git.clone(URL, "-x", branch="feature/one", depth=1)
    assert shell.calls == [("--branch", "feature/one", "--depth", "1", "--", URL, "/workspace/-x")]


@pytest.mark.parametrize(
    "url",
    [
        "https://user:pa55word@git.example.com/x",
        "https://tok3n@git.example.com/x",
        "https://git.example.com/x?token=tok3n",
        "https://git.example.com/x#tok3n",
        "git@git.example.com:team/x",
        "ssh://git.example.com/x",
        "file:///etc",
        "ext::sh -c id",
        "--upload-pack=id",
        "https://git.example.com/x\nb",
        "https://",
        "https://git.example.com/",
        "https://git.example.com/..",
    ],
)
def test_an_address_with_a_credential_or_of_another_kind_is_refused(url: str) -> None:
    shell = Shell(0)
    with pytest.raises(SpecError) as refused:
        sandbox(shell).git.clone(url)
    assert shell.calls == []
    assert "tok3n" not in f"{refused.value} {refused.value.hint}"
    assert "pa55word" not in f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize(
    ("branch", "depth"), [("--upload-pack=x", None), ("a b", None), ("", None), ("x", 0)]
)
def test_options_are_no_way_in(branch: str, depth: int | None) -> None:
    with pytest.raises(SpecError):
        sandbox(Shell(0)).git.clone(URL, branch=branch, depth=depth)


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (128, "fatal: Authentication failed for 'https://git.example.com/SAID'", GitDeniedError),
        (128, "fatal: could not read Username for 'https://SAID': terminal prompts disabled", GitDeniedError),
        (128, "error: RPC failed; The requested URL returned error: 403", GitDeniedError),
        (128, "fatal: CONNECT tunnel failed, response 403", GitDeniedError),
        (128, "fatal: repository 'https://SAID/' not found", GitNotFoundError),
        (128, "fatal: Remote branch SAID not found in upstream origin", GitNotFoundError),
        (128, "fatal: unable to access: Could not resolve host: SAID", GitUnreachableError),
        (128, "fatal: unable to access: The requested URL returned error: 502", GitUnreachableError),
        (
            128,
            "fatal: destination path 'SAID' already exists and is not an empty directory.",
            PathExistsError,
        ),
        (128, "fatal: SAID", GitError),
        (127, "sh: git: not found SAID", UnsupportedError),
        (124, "SAID", LateCommandError),
    ],
)
def test_a_failure_is_of_its_kind_and_quotes_nobody(status: int, said: str, kind: type[SandboxError]) -> None:
    with pytest.raises(kind) as failed:
        sandbox(Shell(status, said)).git.clone(URL, timeout=60)
    assert type(failed.value) is kind
    assert "SAID" not in f"{failed.value} {failed.value.hint}"
