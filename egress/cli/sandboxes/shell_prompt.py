"""The prompt that a shell shows to a person in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping

from egress.runtime.spec import check_name


def prompt_of(name: str) -> Mapping[str, str]:
    """Return variables that make a shell's prompt show the sandbox: its user may have no name there."""
    check_name(name)
    # The only form that dash, busybox and bash all expand.
    prompt = f"{name}:$PWD\\$ "
    # Bash start-up files replace PS1 before the first prompt; PROMPT_COMMAND runs after them, once.
    return {"PS1": prompt, "PROMPT_COMMAND": f"PS1='{prompt}'; unset PROMPT_COMMAND"}
