"""Code that runs as what is inside a sandbox does: by itself, with the standard library alone."""

from __future__ import annotations

import functools
import subprocess

import pytest

from egress.runtime.errors import UnsupportedError
from egress.runtime.namespace import kernel_support


@functools.cache
def _refusal() -> str:
    try:
        kernel_support.check()
    except UnsupportedError as error:
        return error.message
    return ""


def needs_namespaces() -> None:
    """Leave the test out where there are none. Those in tests/runtime/namespace fail under CI."""
    if _refusal():
        pytest.skip(_refusal())


def run_inside(code: str, *arguments: str) -> str:
    """What the code printed; it begins with the modules of `inside` at hand."""
    modules = "command, init, launch, network, root_mounts, syscall_filter, system_calls, user_namespaces"
    whole = f"from egress.runtime.namespace.inside import {modules}\nimport os, sys, socket\n{code}"
    done = subprocess.run(
        [*kernel_support.python_command(whole), *arguments],
        capture_output=True,
        text=True,
        env={},
        cwd="/",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
