"""The shell that a person gets says where it is."""

from __future__ import annotations

import subprocess

import pytest

from egress.cli.sandboxes.shell_prompt import prompt_of
from egress.runtime.errors import SpecError
from egress.sandbox.terminal import SHELL_COMMAND


def test_the_prompt_names_the_sandbox_and_the_folder() -> None:
    env = {"PATH": "/usr/bin:/bin", **prompt_of("box-1")}
    words = [*SHELL_COMMAND[:2], SHELL_COMMAND[2].replace("exec bash", "exec bash --norc -i")]
    shown = subprocess.run(words, input=b"cd /usr\n", env=env, capture_output=True, check=True, cwd="/")
    assert b"box-1:/usr" in shown.stderr


def test_a_name_that_would_be_run_by_the_prompt_is_refused() -> None:
    with pytest.raises(SpecError):
        prompt_of("$(id)")
