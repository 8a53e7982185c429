"""Checks texts of rule files for the API, one after the other, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Final

import msgspec

from egress.api.rules_schema import CheckView
from egress.fleet.errors import CheckFailedError

_TIMEOUT: Final = 30.0
"""More than the process may compute: it may wait for a processor."""
_ONE_AT_A_TIME: Final = threading.Lock()


def check_text(text: str) -> CheckView:
    """Return what is wrong with the text of a rule file. Raises `CheckFailedError` if that takes too long."""
    # Nothing of the environment: secrets are read from there, and a check needs none.
    around = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": os.defpath}
    command = [sys.executable, "-P", "-m", "egress.policy.rule_text_check"]
    try:
        with _ONE_AT_A_TIME:
            done = subprocess.run(
                command,
                input=text.encode("utf-8", "replace"),
                capture_output=True,
                env=around,
                cwd="/",
                timeout=_TIMEOUT,
                check=False,
            )
        return msgspec.json.decode(done.stdout, type=CheckView)
    except (OSError, subprocess.TimeoutExpired, msgspec.MsgspecError):
        # Nothing of the output is told: it may quote the text.
        raise CheckFailedError(
            "the text takes too long to check", "make it smaller, or run `egress check` on the file"
        ) from None
